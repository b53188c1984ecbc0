//! Opens of a client whose connection was lost, claimed by the session after it.
//!
//! A server that did not restart still knows the client, with all that it had open, until its lease ends. One that did
//! lets it claim the same in its grace period (RFC 7530, 9.6.2; RFC 8881, 8.4.2).

use super::compound::{Compound, Results};
use super::open::Want;
use super::{op, V4};
use crate::dialect::Opened;
use crate::files::{OpenFile, StateId};
use crate::reclaim::foreign;
use crate::status;
use crate::transport::Transport;
use crate::xdr::{Decoded, Decoder, Handle, Put};
use naslab_core::{OpenOptions, Result};

/// Statuses that end the session, not one file.
const OF_THE_SESSION: [u32; 5] = [
    status::STALE_CLIENTID,
    status::BADSESSION,
    status::CONN_NOT_BOUND_TO_SESSION,
    status::SEQ_MISORDERED,
    status::DEADSESSION,
];
/// Statuses of a read whose open, or whose file, the server no longer has. Of any other it knows the open.
const NOT_KEPT: [u32; 9] = [
    status::STALE,
    status::BADHANDLE,
    status::EXPIRED,
    status::FHEXPIRED,
    status::STALE_STATEID,
    status::OLD_STATEID,
    status::BAD_STATEID,
    status::ADMIN_REVOKED,
    status::DELEG_REVOKED,
];
/// Of an open that the server took away, and of which it tells in every answer until it is freed.
const REVOKED: [u32; 3] = [status::EXPIRED, status::ADMIN_REVOKED, status::DELEG_REVOKED];

/// What an open file is claimed with.
#[derive(Debug, PartialEq, Eq)]
struct Claimed {
    handle: Handle,
    state: StateId,
    client_id: u64,
    /// Number of its open-owner's next call (4.0).
    sequence: u32,
}

impl Claimed {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.put_opaque(self.handle.as_slice());
        out.put_raw(&self.state);
        out.put_u64(self.client_id);
        out.put_u32(self.sequence);
        out
    }

    fn take(d: &mut Decoder<'_>) -> Decoded<Claimed> {
        let handle = Handle::take(d, Handle::MOST)?;
        Ok(Claimed { handle, state: d.fixed()?, client_id: d.u64()?, sequence: d.u32()? })
    }
}

impl V4 {
    pub(super) fn claim_of(&self, file: &OpenFile, number: u32) -> Vec<u8> {
        let sequence = self.sequence.get(number as usize).copied().unwrap_or(0);
        Claimed { handle: file.handle, state: file.state, client_id: self.client_id, sequence }.encode()
    }

    /// Claims a file of the client before; None where the server no longer knows it.
    pub(super) fn reclaim_file(
        &mut self,
        t: &mut Transport,
        claim: &[u8],
        options: &OpenOptions,
        number: u32,
    ) -> Result<Option<Opened>> {
        let claimed = Claimed::take(&mut Decoder::new(claim)).map_err(foreign)?;
        if claimed.client_id != self.client_id {
            return self.open_previous(t, &claimed, options, number);
        }
        // The same client: its state is there, unless its lease ended meanwhile. A read tells.
        let mut c = Compound::at("open", &claimed.handle);
        let out = c.op(op::READ);
        out.put_raw(&claimed.state);
        out.put_u64(0);
        out.put_u32(1);
        let results = self.run(t, &c)?;
        if is_refused(&results)? && NOT_KEPT.contains(&results.status) {
            if REVOKED.contains(&results.status) {
                self.free(t, &claimed.state)?;
            }
            return Ok(None);
        }
        if t.slots.tells_of_revoked && self.is_revoked(t, &claimed.state)? {
            self.free(t, &claimed.state)?;
            return Ok(None);
        }
        self.owner_sequence(number);
        if self.minor == 0 {
            self.sequence[number as usize] = claimed.sequence;
        }
        Ok(Some(Opened { handle: claimed.handle, state: claimed.state }))
    }

    /// Whether an open is one that the server has revoked (RFC 8881, 18.48). Servers may let reads pass without it.
    fn is_revoked(&mut self, t: &mut Transport, state: &StateId) -> Result<bool> {
        let mut c = Compound::new("open");
        let out = c.op(op::TEST_STATEID);
        out.put_u32(1);
        out.put_raw(state);
        let mut results = self.run(t, &c)?;
        if is_refused(&results)? {
            return Ok(false);
        }
        let found = results.take(op::TEST_STATEID, take_tested)?;
        Ok(found.is_some_and(|status| REVOKED.contains(&status)))
    }

    /// Gives an open up that the server has revoked (RFC 8881, 18.38). Until then it says in every answer that there is
    /// one. One that cannot be freed ends with the client.
    fn free(&mut self, t: &mut Transport, state: &StateId) -> Result<()> {
        if self.minor == 0 {
            return Ok(());
        }
        let mut c = Compound::new("open");
        c.op(op::FREE_STATEID).put_raw(state);
        let results = self.run(t, &c)?;
        if !is_refused(&results)? {
            t.events.state_freed += 1;
        }
        Ok(())
    }

    /// Opens a file of a client that the server knew before it restarted.
    fn open_previous(
        &mut self,
        t: &mut Transport,
        claimed: &Claimed,
        options: &OpenOptions,
        number: u32,
    ) -> Result<Option<Opened>> {
        let handle = claimed.handle;
        let results = self.ask_to_open(t, &handle, Want::Previous, options, number)?;
        if is_refused(&results)? {
            return Ok(None);
        }
        self.take_opened(t, results, Some(handle), number).map(Some)
    }
}

/// TEST_STATEID4resok, of one.
pub(super) fn take_tested(d: &mut Decoder<'_>) -> Decoded<Option<u32>> {
    match d.length(1)? {
        0 => Ok(None),
        _ => d.u32().map(Some),
    }
}

/// Whether the server refused what was asked of a file; an error where it refused the session, or wants to be asked
/// again.
fn is_refused(results: &Results) -> Result<bool> {
    match results.status {
        status::OK => Ok(false),
        status::DELAY | status::GRACE => Err(results.failure()),
        // SEQUENCE itself failed.
        _ if results.count == 0 => Err(results.failure()),
        refused if OF_THE_SESSION.contains(&refused) => Err(results.failure()),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_come_back() {
        let handle = Handle::new(&[4; 30]).unwrap();
        let claimed = Claimed { handle, state: [6; 16], client_id: 5, sequence: 2 };
        let bytes = claimed.encode();
        assert!((0..bytes.len()).all(|cut| Claimed::take(&mut Decoder::new(&bytes[..cut])).is_err()));
        assert_eq!(Claimed::take(&mut Decoder::new(&bytes)), Ok(claimed));
    }
}
