//! READDIR and READDIRPLUS. A cookie is the number of a name, so it stays good while others come and go.

use crate::attributes::put_post;
use crate::folder::Folder;
use crate::nfs::{put_handle, put_status, stat_of, take_handle, Done, Handle};
use crate::rpc::MOST_DATA_BYTES;
use crate::status::Status;
use crate::xdr::{padding, Reader, Writer};

const DOT: u64 = 1;
const DOT_DOT: u64 = 2;
/// Bytes of a result beside its entries: status, attributes, verifier, end of list, end of folder.
const FRAME_BYTES: usize = 4 + 88 + 8 + 4 + 4;
/// Bytes of an entry beside its name: there is one, file id, length, cookie.
const ENTRY_BYTES: usize = 4 + 8 + 4 + 8;
/// What READDIRPLUS adds to it: attributes and handle.
const PLUS_BYTES: usize = 88 + 4 + 4 + 16;

/// How much fits: `names` counts names and cookies alone, `all` the whole result.
struct Room {
    names: usize,
    all: usize,
}

pub(crate) fn readdir(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let cookie = args.u64()?;
    args.u64()?; // the verifier: cookies never go bad here
    let all = args.u32()? as usize;
    list(folder, out, handle, cookie, Room { names: usize::MAX, all }, false);
    Ok(())
}

pub(crate) fn readdirplus(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let handle = take_handle(folder, args)?;
    let cookie = args.u64()?;
    args.u64()?;
    let (names, all) = (args.u32()? as usize, args.u32()? as usize);
    list(folder, out, handle, cookie, Room { names, all }, true);
    Ok(())
}

fn list(folder: &Folder, out: &mut Writer, handle: Handle, cookie: u64, room: Room, plus: bool) {
    let start = out.len();
    let listed = handle.and_then(|id| Ok((id, folder.list(id, cookie)?)));
    put_status(out, &listed);
    put_post(out, stat_of(folder, handle).as_ref());
    let Ok((id, (names, first))) = listed else { return };
    out.u64(0);
    let mut page = Page { folder, out, plus, left: room.all.min(MOST_DATA_BYTES).saturating_sub(FRAME_BYTES), room };
    let dots = [(DOT, &b"."[..], Ok(id)), (DOT_DOT, &b".."[..], folder.parent(id))];
    let mut entries = dots.into_iter().filter(|dot| dot.0 > cookie).map(|(number, name, at)| (number, name, at.ok()));
    let named = names[first..].iter().map(|(number, name)| (*number, &**name, Some(*number)));
    let before = page.out.len();
    let whole = entries.all(|entry| page.add(entry)) && named.into_iter().all(|entry| page.add(entry));
    if !whole && out.len() == before {
        out.truncate(start);
        put_status::<()>(out, &Err(Status::TOOSMALL));
        put_post(out, stat_of(folder, handle).as_ref());
        return;
    }
    out.flag(false);
    out.flag(whole);
}

/// Entries on their way into a reply.
struct Page<'a> {
    folder: &'a Folder,
    out: &'a mut Writer,
    plus: bool,
    left: usize,
    room: Room,
}

impl Page<'_> {
    /// Adds an entry, or leaves out one that is gone. False when it does not fit.
    fn add(&mut self, (cookie, name, id): (u64, &[u8], Option<u64>)) -> bool {
        let Some(id) = id.filter(|id| self.folder.is_there(*id)) else { return true };
        let stat = if self.plus || cookie <= DOT_DOT { self.folder.stat(id).ok() } else { None };
        let size = ENTRY_BYTES + name.len() + padding(name.len());
        let whole = size + if self.plus { PLUS_BYTES } else { 0 };
        if whole > self.left || size > self.room.names {
            return false;
        }
        self.left -= whole;
        self.room.names -= size;
        let file_id = stat.as_ref().map_or_else(|| self.folder.file_id(id), |stat| stat.st_ino);
        self.out.flag(true);
        self.out.u64(file_id);
        self.out.opaque(name);
        self.out.u64(cookie);
        if self.plus {
            put_post(self.out, stat.as_ref());
            self.out.flag(true);
            put_handle(self.folder, self.out, id);
        }
        true
    }
}
