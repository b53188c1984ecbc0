//! MOUNT 3 (RFC 1813, appendix I), on the same port.

use crate::folder::Folder;
use crate::nfs::{put_handle, resolve, Done, Trouble};
use crate::rpc::Refusal;
use crate::status::Status;
use crate::xdr::{Reader, Writer};

pub(crate) const PROGRAM: u32 = 100_005;
const EXPORT: &[u8] = b"/data";
const MOST_PATH_BYTES: usize = 1024;
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;

pub(crate) fn call(folder: &Folder, procedure: u32, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    match procedure {
        0 | 4 => {}
        1 => mount(folder, args, out)?,
        2 => out.flag(false), // nobody is written down as mounted
        3 => {
            args.opaque(MOST_PATH_BYTES)?;
        }
        5 => {
            out.flag(true);
            out.opaque(EXPORT);
            out.flag(false); // for everybody
            out.flag(false);
        }
        _ => return Err(Trouble::Refused(Refusal::NoProcedure)),
    }
    Ok(())
}

fn mount(folder: &Folder, args: &mut Reader<'_>, out: &mut Writer) -> Done {
    let path = args.opaque(MOST_PATH_BYTES)?;
    let found = match path.strip_prefix(EXPORT) {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => resolve(folder, rest),
        _ if path == b"/" => resolve(folder, b""),
        _ => Err(Status(2)),
    };
    match found {
        Ok(id) => {
            out.u32(0);
            put_handle(folder, out, id);
            out.words(&[2, AUTH_SYS, AUTH_NONE]);
        }
        // the codes of MOUNT are those of NFS up to 63, and a server fault beyond
        Err(Status(code)) => out.u32(if code <= 63 { code } else { 10006 }),
    }
    Ok(())
}
