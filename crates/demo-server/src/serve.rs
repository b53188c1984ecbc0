//! One call: from a record to a reply.

use crate::folder::Folder;
use crate::mount;
use crate::nfs::{self, Patience, Trouble};
use crate::rpc::{self, Refusal};
use crate::xdr::{Garbage, Writer};

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Replied,
    /// It would wait for a disk and was told not to: nothing was done, nothing was written.
    WouldWait,
}

/// Carries out the call in `record` and appends its reply. Fails when the record is no call: the connection is
/// of no use then.
pub(crate) fn serve(folder: &Folder, record: &[u8], out: &mut Writer, patience: Patience) -> Result<Served, Garbage> {
    let Some(mut call) = rpc::parse(record, out)? else { return Ok(Served::Replied) };
    let start = rpc::accept(out, call.xid);
    let done = match (call.program, call.version) {
        (nfs::PROGRAM, 3) => nfs::call(folder, call.procedure, &mut call.args, out, patience),
        (mount::PROGRAM, 3) => mount::call(folder, call.procedure, &mut call.args, out),
        (nfs::PROGRAM | mount::PROGRAM, _) => Err(Trouble::Refused(Refusal::Versions { low: 3, high: 3 })),
        _ => Err(Trouble::Refused(Refusal::NoProgram)),
    };
    match done {
        Ok(()) => rpc::finish(out, start),
        Err(Trouble::Refused(why)) => rpc::refuse(out, start, call.xid, &why),
        Err(Trouble::WouldWait) => {
            out.truncate(start);
            return Ok(Served::WouldWait);
        }
    }
    Ok(Served::Replied)
}
