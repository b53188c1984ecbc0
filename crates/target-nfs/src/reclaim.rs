//! What outlasts a worker's session: in which version it spoke, who its client was, and which sessions that client had.

use crate::options::Version;
use naslab_core::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session whose files may be claimed by the one after it.
pub(crate) struct Lasting<'a> {
    /// Of the session that it follows; None for the first. Files are claimed in the version in which they were opened.
    pub version: Option<Version>,
    /// Who the client of that session was.
    pub client: Option<&'a [u8]>,
    pub sessions: &'a Arc<Sessions>,
}

impl<'a> Lasting<'a> {
    /// identity: of the session that it follows, empty for the first.
    pub fn after(identity: &'a [u8], sessions: &'a Arc<Sessions>) -> Result<Lasting<'a>> {
        let Some((number, client)) = identity.split_first() else {
            return Ok(Lasting { version: None, client: None, sessions });
        };
        let version = Version::ALL.into_iter().find(|version| *version as u8 == *number);
        let version = version.ok_or_else(|| foreign("no such version"))?;
        Ok(Lasting { version: Some(version), client: Some(client), sessions })
    }
}

/// What `Lasting::after` reads.
pub(crate) fn identity(version: Version, client: &[u8]) -> Vec<u8> {
    [&[version as u8], client].concat()
}

/// The error of an identity or a claim that no session gave.
pub(crate) fn foreign<T>(_: T) -> Error {
    Error::new(ErrorKind::Invalid, "connect", "this was left by no session of an NFS server")
}

/// The last session of a client (4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastSession {
    pub client_id: u64,
    /// None where none was made yet, as far as is known.
    pub session: Option<[u8; 16]>,
    /// Number of the next CREATE_SESSION.
    pub next: u32,
}

/// A call that changes something, and whose answer was lost (4.1). Its session, where that lives on, answers the same
/// call as it did before, or carries it out now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    pub operation: &'static str,
    /// By what it is known when it is repeated.
    pub changes: Vec<u8>,
    pub session: [u8; 16],
    /// As SEQUENCE had them: the slot, the number of its call, and the highest slot in use.
    pub sequence: (u32, u32, u32),
    /// The operations after it.
    pub arguments: Vec<u8>,
    pub count: u32,
}

type ByClient<T> = Mutex<HashMap<Vec<u8>, T>>;

/// What is remembered of each client that outlasts its connections, by the client's name.
///
/// A server answers a CREATE_SESSION whose number it has seen as it did before (RFC 8881, 18.36.4), with a session
/// whose slots may be in use. So the numbers are remembered from one attempt to connect to the next, also where one fails.
#[derive(Default)]
pub(crate) struct Sessions {
    last: ByClient<LastSession>,
    unanswered: ByClient<Unanswered>,
}

fn lock<T>(of: &ByClient<T>) -> MutexGuard<'_, HashMap<Vec<u8>, T>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// The last session of a client.
    pub fn find(&self, client: &[u8]) -> Option<LastSession> {
        lock(&self.last).get(client).copied()
    }

    /// A client has, or is about to have, a new one.
    pub fn remember(&self, client: &[u8], last: LastSession) {
        lock(&self.last).insert(client.to_vec(), last);
    }

    /// A client lost a session and with it the answer to this call. The first counts: what later attempts lose is
    /// done by name.
    pub fn note_unanswered(&self, client: &[u8], call: Unanswered) {
        lock(&self.unanswered).entry(client.to_vec()).or_insert(call);
    }

    /// Whether this session of a client owes the answer to a call.
    pub fn is_owing(&self, client: &[u8], session: &[u8; 16]) -> bool {
        lock(&self.unanswered).get(client).is_some_and(|call| call.session == *session)
    }

    /// The call of a client that was not answered, which is asked about now.
    pub fn take_unanswered(&self, client: &[u8]) -> Option<Unanswered> {
        lock(&self.unanswered).remove(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_clients_come_back() {
        let sessions = Arc::default();
        for version in Version::ALL {
            let identity = identity(version, b"who");
            let lasting = Lasting::after(&identity, &sessions).unwrap();
            assert_eq!((lasting.version, lasting.client), (Some(version), Some(&b"who"[..])));
        }
        let first = Lasting::after(&[], &sessions).unwrap();
        assert_eq!((first.version, first.client), (None, None));
        assert!(Lasting::after(&[99], &sessions).is_err());
    }
}
