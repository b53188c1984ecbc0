//! Calls whose answer was lost with a connection. A session that lives on keeps the answers that it was asked to keep,
//! and gives them again to whoever asks with the same number in the same slot; what it has not carried out it carries
//! out then (RFC 8881, 2.10.6.1). So each such call happens once. One that restarted knows nothing of either.

use super::compound::{put_head, take_head, Compound, Results};
use super::V4;
use crate::data::{put_sequence, PROC_COMPOUND};
use crate::reclaim::Unanswered;
use crate::status;
use crate::transport::Transport;
use crate::xdr::Put;
use naslab_core::Result;

impl V4 {
    /// Remembers a call for the session after this one, which was lost.
    pub(super) fn note_unanswered(&self, c: &Compound, session: [u8; 16], sequence: (u32, u32, u32)) {
        let (Some(sessions), Some(changes)) = (&self.sessions, c.changes.clone()) else { return };
        let (arguments, count) = (c.arguments.clone(), c.count);
        let call = Unanswered { operation: c.operation, changes, session, sequence, arguments, count };
        sessions.note_unanswered(self.identity.name(), call);
    }

    /// The answer to a call that is repeated, where the session in which it was made first still has it. Asked once.
    pub(super) fn answer_of_before(&mut self, t: &mut Transport, compound: &Compound) -> Result<Option<Results>> {
        let Some(changes) = &compound.changes else { return Ok(None) };
        let Some(call) = self.unanswered.take() else { return Ok(None) };
        let answer = match (call.operation, &call.changes) == (compound.operation, changes) {
            true => self.ask_again(t, &call)?,
            false => None,
        };
        self.end_session(t, &call.session)?;
        Ok(answer)
    }

    /// Makes the same call in the same session; None where that is over, or has not kept the answer.
    fn ask_again(&mut self, t: &mut Transport, call: &Unanswered) -> Result<Option<Results>> {
        if self.bind(t, 0, &call.session)?.status != status::OK {
            return Ok(None);
        }
        let reply = t.call(call.operation, Some(0), PROC_COMPOUND, |out| {
            put_head(out, self.minor, call.count + 1);
            put_sequence(out, &call.session, call.sequence, true);
            out.put_raw(&call.arguments);
        })?;
        let (status, left, at, sequence) = {
            let mut d = reply.decoder();
            take_head(&mut d, true).map_err(|bad| bad.error(call.operation))?
        };
        if sequence.is_none() || matches!(status, status::DELAY | status::GRACE) {
            return Ok(None);
        }
        t.events.answer_replayed += 1;
        Ok(Some(Results::new(call.operation, status, reply, at, left)))
    }
}
