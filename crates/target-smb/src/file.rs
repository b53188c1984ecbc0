//! Requests about files and folders, and what their answers hold (MS-SMB2 2.2.13 to 2.2.40, MS-FSCC).

use crate::codec::{broken, Put, View, HEADER_BYTES, RELATED_FILE};
use crate::names::from_utf16;
use naslab_core::listing::Listing;
use naslab_core::{DirEntry, FileStat, FileTimes, Result, Space};

pub(crate) type Handle = [u8; 16];

pub(crate) const ACCESS_READ: u32 = 0x0012_0089;
pub(crate) const ACCESS_WRITE: u32 = 0x0012_0196;
pub(crate) const ACCESS_DELETE: u32 = 0x0011_0080;
/// To empty a file and delete it.
pub(crate) const ACCESS_EMPTY: u32 = 0x0011_0082;
pub(crate) const ACCESS_STAT: u32 = 0x0010_0080;
pub(crate) const ACCESS_LIST: u32 = 0x0010_0081;
pub(crate) const ACCESS_SET_TIMES: u32 = 0x0010_0100;

pub(crate) const OPEN: u32 = 1;
pub(crate) const CREATE_NEW: u32 = 2;
pub(crate) const OPEN_OR_CREATE: u32 = 3;
pub(crate) const OVERWRITE: u32 = 4;
pub(crate) const OVERWRITE_OR_CREATE: u32 = 5;

pub(crate) const OPTION_DIRECTORY: u32 = 0x1;
pub(crate) const OPTION_WRITE_THROUGH: u32 = 0x2;
pub(crate) const OPTION_NO_BUFFERING: u32 = 0x8;
pub(crate) const OPTION_NOT_DIRECTORY: u32 = 0x40;
pub(crate) const OPTION_DELETE_ON_CLOSE: u32 = 0x1000;
/// A symbolic link or other reparse point itself, not what it points to.
pub(crate) const OPTION_REPARSE_POINT: u32 = 0x0020_0000;

pub(crate) const OPLOCK_NONE: u8 = 0;
pub(crate) const OPLOCK_BATCH: u8 = 9;
pub(crate) const OPLOCK_LEASE: u8 = 0xFF;

const ATTRIBUTE_DIRECTORY: u32 = 0x10;
/// A symbolic link, a junction or the like (MS-FSCC 2.6).
const ATTRIBUTE_REPARSE_POINT: u32 = 0x400;
const ATTRIBUTE_NORMAL: u32 = 0x80;
const SHARE_ALL: u32 = 7;
const IMPERSONATION: u32 = 2;
const CREATE_FIXED_BYTES: usize = 56;

const INFO_FILE: u8 = 1;
const INFO_FILE_SYSTEM: u8 = 2;
const CLASS_DIRECTORY: u8 = 1;
const CLASS_DIRECTORY_WITH_IDS: u8 = 38;
const CLASS_BASIC: u8 = 4;
const CLASS_STANDARD: u8 = 5;
const CLASS_INTERNAL: u8 = 6;
const CLASS_RENAME: u8 = 10;
const CLASS_DISPOSITION: u8 = 13;
const CLASS_END_OF_FILE: u8 = 20;
const CLASS_FULL_SIZE: u8 = 7;
const ENTRY_FIXED_BYTES: usize = 64;
const ENTRY_WITH_ID_FIXED_BYTES: usize = 80;
/// From 1601 to 1970 in steps of 100 ns, in which SMB counts time.
const UNIX_EPOCH_STEPS: i64 = 116_444_736_000_000_000;

/// A CREATE request.
pub(crate) struct Create<'a> {
    pub name: &'a [u8],
    pub access: u32,
    pub disposition: u32,
    pub options: u32,
    pub oplock: u8,
    /// Encoded create contexts.
    pub contexts: &'a [u8],
}

impl Create<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let directory = self.options & OPTION_DIRECTORY != 0;
        let mut out = Vec::with_capacity(CREATE_FIXED_BYTES + self.name.len() + self.contexts.len() + 16);
        out.u16(57);
        out.u8(0);
        out.u8(self.oplock);
        out.u32(IMPERSONATION);
        out.zeros(16);
        out.u32(self.access);
        out.u32(if directory { ATTRIBUTE_DIRECTORY } else { ATTRIBUTE_NORMAL });
        out.u32(SHARE_ALL);
        out.u32(self.disposition);
        out.u32(self.options);
        out.u16((HEADER_BYTES + CREATE_FIXED_BYTES) as u16);
        out.u16(self.name.len() as u16);
        out.zeros(8);
        out.put(self.name);
        if self.name.is_empty() {
            // The variable part may not be empty.
            out.zeros(8);
        }
        if !self.contexts.is_empty() {
            out.align8();
            let at = (HEADER_BYTES + out.len()) as u32;
            out[48..52].copy_from_slice(&at.to_le_bytes());
            out[52..56].copy_from_slice(&(self.contexts.len() as u32).to_le_bytes());
            out.put(self.contexts);
        }
        out
    }
}

/// A time of SMB in nanoseconds since 1970; `None` for none, and for one that lies centuries away.
fn unix_ns(steps: u64) -> Option<i64> {
    i64::try_from(steps).ok().filter(|steps| *steps > 0)?.checked_sub(UNIX_EPOCH_STEPS)?.checked_mul(100)
}

fn steps_of(unix_ns: i64) -> u64 {
    (unix_ns.div_euclid(100) + UNIX_EPOCH_STEPS) as u64
}

/// What an answer to CREATE tells.
pub(crate) struct Created {
    pub handle: Handle,
    pub stat: FileStat,
    /// When it was created, in SMB's own steps since 1601; 0 where the server does not say.
    pub created_steps: u64,
    /// Whether it leads elsewhere: a symbolic link, a junction, a mount point.
    pub is_link: bool,
}

pub(crate) fn parse_create(message: &[u8]) -> Result<Created> {
    let view = View(message);
    if view.u16(HEADER_BYTES)? != 89 {
        return Err(broken("the answer to an open has no valid form"));
    }
    let stat = FileStat {
        len_bytes: view.u64(112)?,
        allocated_bytes: Some(view.u64(104)?),
        is_dir: view.u32(120)? & ATTRIBUTE_DIRECTORY != 0,
        modified_ns: unix_ns(view.u64(88)?),
    };
    let created_steps = view.u64(72)?;
    Ok(Created {
        handle: view.array(128)?,
        stat,
        created_steps,
        is_link: view.u32(120)? & ATTRIBUTE_REPARSE_POINT != 0,
    })
}

pub(crate) fn close(handle: &Handle) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.u16(24);
    out.zeros(6);
    out.put(handle);
    out
}

#[inline]
pub(crate) fn flush(handle: &Handle) -> [u8; 24] {
    let mut out = [0; 24];
    out[0] = 24;
    out[8..].copy_from_slice(handle);
    out
}

#[inline]
pub(crate) fn read(handle: &Handle, offset_bytes: u64, len_bytes: u32) -> [u8; 49] {
    let mut out = [0; 49];
    out[0] = 49;
    // Where the data are wanted within the answer.
    out[2] = crate::receive::HEAD_BYTES as u8;
    out[4..8].copy_from_slice(&len_bytes.to_le_bytes());
    out[8..16].copy_from_slice(&offset_bytes.to_le_bytes());
    out[16..32].copy_from_slice(handle);
    out
}

#[inline]
pub(crate) fn write(handle: &Handle, offset_bytes: u64, len_bytes: u32, write_through: bool) -> [u8; 48] {
    let mut out = [0; 48];
    out[0] = 49;
    out[2] = (HEADER_BYTES + 48) as u8;
    out[4..8].copy_from_slice(&len_bytes.to_le_bytes());
    out[8..16].copy_from_slice(&offset_bytes.to_le_bytes());
    out[16..32].copy_from_slice(handle);
    // WRITEFLAG_WRITE_THROUGH.
    out[44] = u8::from(write_through);
    out
}

fn set_info(class: u8, handle: &Handle, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + data.len());
    out.u16(33);
    out.u8(INFO_FILE);
    out.u8(class);
    out.u32(data.len() as u32);
    out.u16((HEADER_BYTES + 32) as u16);
    out.zeros(6);
    out.put(handle);
    out.put(data);
    out
}

pub(crate) fn set_end_of_file(handle: &Handle, len_bytes: u64) -> Vec<u8> {
    set_info(CLASS_END_OF_FILE, handle, &len_bytes.to_le_bytes())
}

/// Sets when the file of the request before was last read and written; zero leaves the others alone.
pub(crate) fn set_times(times: FileTimes) -> Vec<u8> {
    let mut data = Vec::with_capacity(40);
    data.u64(0);
    data.u64(steps_of(times.accessed_ns));
    data.u64(steps_of(times.modified_ns));
    data.zeros(16);
    set_info(CLASS_BASIC, &RELATED_FILE, &data)
}

/// Marks a file for deletion at its close.
pub(crate) fn set_delete(handle: &Handle) -> Vec<u8> {
    set_info(CLASS_DISPOSITION, handle, &[1])
}

/// Renames the file of the request before, replacing what is there.
pub(crate) fn set_name(name: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(20 + name.len());
    data.u8(1);
    data.zeros(15);
    data.u32(name.len() as u32);
    data.put(name);
    // Windows wants the structure's full size even for short names.
    data.zeros(24usize.saturating_sub(data.len()));
    set_info(CLASS_RENAME, &RELATED_FILE, &data)
}

/// Asks for the room on the file system of the request before.
pub(crate) fn query_space() -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    out.u16(41);
    out.u8(INFO_FILE_SYSTEM);
    out.u8(CLASS_FULL_SIZE);
    out.u32(32);
    out.zeros(16);
    out.put(&RELATED_FILE);
    out
}

/// The output buffer of an answer to QUERY_INFO or QUERY_DIRECTORY.
pub(crate) fn output(message: &[u8]) -> Result<&[u8]> {
    let view = View(message);
    view.piece(usize::from(view.u16(66)?), view.u32(68)? as usize)
}

pub(crate) fn parse_space(output: &[u8]) -> Result<Space> {
    let view = View(output);
    let unit = u64::from(view.u32(24)?).saturating_mul(u64::from(view.u32(28)?));
    Ok(Space { free_bytes: view.u64(8)?.saturating_mul(unit), total_bytes: view.u64(0)?.saturating_mul(unit) })
}

/// Asks for one class of facts about the file of the request before.
fn query(class: u8, output_bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    out.u16(41);
    out.u8(INFO_FILE);
    out.u8(class);
    out.u32(output_bytes);
    out.zeros(16);
    out.put(&RELATED_FILE);
    out
}

/// Asks for the number by which a server knows a file or folder (MS-FSCC 2.4.27).
pub(crate) fn query_id() -> Vec<u8> {
    query(CLASS_INTERNAL, 8)
}

/// Asks how long a file is and how many names it has (MS-FSCC 2.4.47).
pub(crate) fn query_standard() -> Vec<u8> {
    query(CLASS_STANDARD, 24)
}

/// How many names a file has, of `query_standard`.
pub(crate) fn parse_links(output: &[u8]) -> Result<u32> {
    View(output).u32(16)
}

pub(crate) fn parse_id(output: &[u8]) -> Result<u64> {
    View(output).u64(0)
}

/// Asks for entries of a folder, at most `output_bytes` of them.
pub(crate) fn query_directory(handle: &Handle, output_bytes: u32, with_ids: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(34);
    out.u16(33);
    out.u8(if with_ids { CLASS_DIRECTORY_WITH_IDS } else { CLASS_DIRECTORY });
    out.u8(0);
    out.u32(0);
    out.put(handle);
    out.u16((HEADER_BYTES + 32) as u16);
    out.u16(2);
    out.u32(output_bytes);
    out.put(b"*\0");
    out
}

/// What parts names; a server may take either.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// By which numbers a server knows a listed folder, the one above it, and its entries in their order; 0 for none.
#[derive(Default)]
pub(crate) struct Ids {
    pub own: u64,
    pub above: u64,
    pub entries: Vec<u64>,
}

/// Appends the entries of one answer, without `.` and `..`. ids: of an answer that has them.
pub(crate) fn parse_entries(
    output: &[u8],
    listing: &mut Listing,
    into: &mut Vec<DirEntry>,
    mut ids: Option<&mut Ids>,
) -> Result<()> {
    let fixed_bytes = if ids.is_some() { ENTRY_WITH_ID_FIXED_BYTES } else { ENTRY_FIXED_BYTES };
    let mut rest = output;
    while !rest.is_empty() {
        let view = View(rest);
        let (next, len) = (view.u32(0)? as usize, view.u32(60)? as usize);
        let name = from_utf16(view.bytes(fixed_bytes, len)?);
        let id = if ids.is_some() { view.u64(72)? } else { 0 };
        // A folder that leads elsewhere is none: whoever walks a tree stays in it.
        let is_dir = view.u32(56)? & (ATTRIBUTE_DIRECTORY | ATTRIBUTE_REPARSE_POINT) == ATTRIBUTE_DIRECTORY;
        let is_entry = listing.take(&name, &SEPARATORS)?;
        match &mut ids {
            Some(ids) if is_entry => ids.entries.push(id),
            Some(ids) if name == "." => ids.own = id,
            Some(ids) => ids.above = id,
            None => {}
        }
        if is_entry {
            into.push(DirEntry { name, is_dir });
        }
        if next == 0 {
            return Ok(());
        }
        if next < fixed_bytes + len || next > rest.len() {
            return Err(broken("the entries of a folder do not follow one another"));
        }
        rest = &rest[next..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::utf16;
    use proptest::prelude::*;

    fn listing(names: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let name = utf16(name);
            let mut entry = vec![0; ENTRY_FIXED_BYTES];
            entry[56] = 0x10;
            entry[60..64].copy_from_slice(&(name.len() as u32).to_le_bytes());
            entry.put(&name);
            if n + 1 < names.len() {
                entry.align8();
                let len = entry.len() as u32;
                entry[..4].copy_from_slice(&len.to_le_bytes());
            }
            out.put(&entry);
        }
        out
    }

    proptest! {
        #[test]
        fn listings_come_back(names in proptest::collection::vec("[^/\\\\\\x00]{1,60}", 0..20)) {
            let mut got = Vec::new();
            parse_entries(&listing(&names), &mut Listing::default(), &mut got, None).unwrap();
            let got: Vec<String> = got.into_iter().map(|e| e.name).collect();
            let expected: Vec<String> = names.into_iter().filter(|n| n != "." && n != "..").collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn hostile_answers_never_panic(
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8),
            cut in any::<usize>(),
        ) {
            let names: Vec<String> = ["one", "two", "three"].map(String::from).to_vec();
            let mut bytes = listing(&names);
            let len = bytes.len();
            changes.iter().for_each(|(at, value)| bytes[at % len] = *value);
            bytes.truncate(cut % (len + 1));
            let _ = parse_entries(&bytes, &mut Listing::default(), &mut Vec::new(), None);
            let _ = parse_entries(&bytes, &mut Listing::default(), &mut Vec::new(), Some(&mut Ids::default()));
            let _ = parse_id(&bytes);
            let _ = parse_space(&bytes);
            let _ = parse_create(&bytes);
            let _ = output(&bytes);
            let _ = crate::ioctl::output(&bytes);
        }
    }

    #[test]
    fn requests_have_the_sizes_the_protocol_names() {
        let name = utf16("ab");
        let create =
            Create { name: &name, access: ACCESS_READ, disposition: OPEN, options: 0, oplock: 0, contexts: &[] };
        assert_eq!(create.encode().len(), 60);
        for write_through in [false, true] {
            let body = write(&[3; 16], 1, 2, write_through);
            assert_eq!(
                (&body[16..32], &body[32..]),
                (&[3; 16][..], &[vec![0; 12], vec![u8::from(write_through), 0, 0, 0]].concat()[..])
            );
        }
        let with = Create { contexts: &[7; 56], ..create };
        let body = with.encode();
        let at = View(&body).u32(48).unwrap() as usize - HEADER_BYTES;
        assert_eq!((at % 8, &body[at..]), (0, &[7; 56][..]));
        let space = parse_space(&{
            let mut out = Vec::new();
            [1000u64, 400, 500].iter().for_each(|v| out.u64(*v));
            out.u32(8);
            out.u32(512);
            out
        });
        assert_eq!(space.unwrap(), Space { free_bytes: 400 * 4096, total_bytes: 1000 * 4096 });
    }
}
