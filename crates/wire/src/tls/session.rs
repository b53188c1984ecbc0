//! One connection's TLS: the handshake, and records of what is sent and received afterwards.

use super::buffers::{Incoming, Outgoing, CHUNK_BYTES};
use super::{messages, Tls, TlsFacts, TLS_OPERATION};
use crate::os::Wait;
use crate::wire::{Plain, Waited};
use naslab_core::{Error, ErrorKind, Result};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use std::fmt;
use std::io::IoSlice;
use std::time::Duration;

/// Steps that closing takes at most: each opens a record that nobody will read.
const MAX_STEPS_TO_CLOSE: usize = 64;

/// Both directions of a connection.
pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    facts: TlsFacts,
    incoming: Incoming,
    /// Content of opened records, from `taken` on.
    opened: Vec<u8>,
    taken: usize,
    outgoing: Outgoing,
    /// Content that is sealed in `outgoing`: the caller hears that it was taken when all of that has left.
    sealed: usize,
    is_closed: bool,
    /// What ended it: rustls must not be asked again then.
    failed: Option<rustls::Error>,
}

impl fmt::Debug for Session {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Something was done: look again.
    Again,
    /// What was sealed must leave first.
    Flush,
    /// The handshake waits for the server.
    Blocked,
    /// So much content went into the caller's memory, and what found no room there into `opened`.
    Opened(usize),
    /// No whole record is there; content may be sent.
    Idle,
}

impl Session {
    /// Shakes hands with `host`. Blocks up to `timeout`.
    pub fn begin(tls: &Tls, host: &str, mut plain: Plain<'_>, timeout: Duration) -> Result<Session> {
        let bare = host.trim_matches(['[', ']']);
        let name = ServerName::try_from(bare.to_string()).map_err(|_| {
            let message = "a certificate cannot be for this name: give the server's host name or address";
            Error::new(ErrorKind::Invalid, TLS_OPERATION, message).with("host", bare)
        })?;
        let failed = |error: rustls::Error| messages::error(&error, bare, TLS_OPERATION);
        let connection = UnbufferedClientConnection::new(tls.config.clone(), name).map_err(failed)?;
        let mut session = Session {
            connection,
            facts: messages::facts(None),
            incoming: Incoming::new(),
            opened: Vec::new(),
            taken: 0,
            outgoing: Outgoing::new(),
            sealed: 0,
            is_closed: false,
            failed: None,
        };
        if let Err(error) = session.shake_hands(&mut plain, timeout, bare) {
            session.say_why(&mut plain);
            return Err(error);
        }
        session.facts = session.agreed(tls)?;
        Ok(session)
    }

    fn shake_hands(&mut self, plain: &mut Plain<'_>, timeout: Duration, host: &str) -> Result<()> {
        let mut waited = Waited::default();
        loop {
            match self.step(&mut []).map_err(|error| messages::error(&error, host, TLS_OPERATION))? {
                Step::Again | Step::Opened(_) | Step::Flush => {}
                Step::Idle => return Ok(()),
                Step::Blocked => {
                    self.incoming.receive(plain, 1, Wait::First).map_err(messages::in_handshake)?;
                    // Whatever came: a server that sends drop by drop gains nothing.
                    waited.check(timeout, TLS_OPERATION).map_err(messages::in_handshake)?;
                }
            }
            while !self.outgoing.flush(plain, Wait::First).map_err(messages::in_handshake)? {
                waited.check(timeout, TLS_OPERATION).map_err(messages::in_handshake)?;
            }
        }
    }

    /// Tells the server why its handshake is refused, if the socket takes that now.
    fn say_why(&mut self, plain: &mut Plain<'_>) {
        if self.connection.wants_write() {
            drop(self.advance(&mut []));
            drop(self.outgoing.flush(plain, Wait::No));
        }
    }

    fn agreed(&self, tls: &Tls) -> Result<TlsFacts> {
        if self.connection.alpn_protocol() != Some(tls.alpn.as_bytes()) {
            return Err(messages::without_alpn(tls.alpn));
        }
        Ok(messages::facts(self.connection.negotiated_cipher_suite().map(|suite| suite.suite())))
    }

    pub fn facts(&self) -> TlsFacts {
        self.facts
    }

    /// Whether content is there, or a record that may have some, without a system call.
    pub fn has_pending(&self) -> bool {
        self.taken < self.opened.len() || self.incoming.has_record()
    }

    /// One step of the connection; content goes into `into`, and what finds no room there is kept.
    fn step(&mut self, into: &mut [u8]) -> std::result::Result<Step, rustls::Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let step = self.advance(into);
        self.failed = step.as_ref().err().cloned();
        step
    }

    fn advance(&mut self, into: &mut [u8]) -> std::result::Result<Step, rustls::Error> {
        let Session { connection, incoming, outgoing, opened, .. } = self;
        let UnbufferedStatus { discard, state, .. } = connection.process_tls_records(incoming.filled());
        let step = match state {
            Err(error) => Err(error),
            Ok(ConnectionState::ReadTraffic(mut records)) => {
                let mut done = 0;
                while let Some(record) = records.next_record() {
                    let content = record?.payload;
                    let here = content.len().min(into.len() - done);
                    into[done..done + here].copy_from_slice(&content[..here]);
                    opened.extend_from_slice(&content[here..]);
                    done += here;
                }
                Ok(Step::Opened(done))
            }
            Ok(ConnectionState::EncodeTlsData(mut record)) => {
                let needed = |error: &EncodeError| match error {
                    EncodeError::InsufficientSize(size) => Some(size.required_size),
                    EncodeError::AlreadyEncoded => None,
                };
                let encoded = outgoing.append(|room| record.encode(room), needed);
                encoded.map(|()| Step::Again).map_err(|error| rustls::Error::General(error.to_string()))
            }
            Ok(ConnectionState::TransmitTlsData(record)) => {
                record.done();
                Ok(Step::Flush)
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(Step::Blocked),
            Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Idle),
            // The end of the stream as the server says it; nothing of ours would be answered.
            Ok(_) => Err(rustls::Error::AlertReceived(rustls::AlertDescription::CloseNotify)),
        };
        incoming.discard(discard);
        step
    }

    /// Content that was opened before.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.opened.len() - self.taken);
        into[..count].copy_from_slice(&self.opened[self.taken..self.taken + count]);
        self.taken += count;
        if self.taken == self.opened.len() {
            self.opened.clear();
            self.taken = 0;
        }
        count
    }

    /// Content that is there without a system call, as much as there is room for.
    pub fn take_opened(&mut self, into: &mut [u8]) -> Result<usize> {
        let done = self.take(into);
        if done == into.len() || !self.incoming.has_record() {
            return Ok(done);
        }
        Ok(done + self.open(&mut into[done..])?)
    }

    /// Opens the records that are there whole, as many as there is room for. Of what is no record rustls says so early.
    fn open(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.step(&mut into[done..]).map_err(|error| messages::error(&error, "", "receive"))? {
                Step::Opened(count) => done += count,
                Step::Again | Step::Flush => {}
                Step::Idle | Step::Blocked => break,
            }
        }
        Ok(done)
    }

    /// Receives at least a byte of content; zero when none is there after one wait.
    pub fn receive(&mut self, mut plain: Plain<'_>, into: &mut [u8], wait: Wait) -> Result<usize> {
        let done = self.take_opened(into)?;
        if done > 0 || into.is_empty() {
            return Ok(done);
        }
        match self.incoming.receive(&mut plain, into.len(), wait)? {
            0 => Ok(0),
            _ => self.open(into),
        }
    }

    /// Seals content and sends it: how much of it has left whole. What is sealed already is what the last call brought
    /// and did not hear of: the next one brings it again.
    pub fn send(&mut self, mut plain: Plain<'_>, parts: &[IoSlice<'_>], wait: Wait) -> Result<usize> {
        if self.sealed == 0 {
            self.seal(parts).map_err(|error| messages::error(&error, "", "send"))?;
        }
        if !self.outgoing.flush(&mut plain, wait)? {
            return Ok(0);
        }
        Ok(std::mem::take(&mut self.sealed))
    }

    fn seal(&mut self, parts: &[IoSlice<'_>]) -> std::result::Result<(), rustls::Error> {
        // Records that came meanwhile are opened on the way: rustls wants to see them as long as they are there.
        while !matches!(self.step(&mut [])?, Step::Idle | Step::Blocked) {}
        let Session { connection, incoming, outgoing, sealed, failed, .. } = self;
        for part in parts {
            let content = &part[..part.len().min(CHUNK_BYTES - *sealed)];
            let UnbufferedStatus { state: Ok(ConnectionState::WriteTraffic(mut traffic)), .. } =
                connection.process_tls_records(incoming.filled())
            else {
                *failed = Some(rustls::Error::HandshakeNotComplete);
                return Err(rustls::Error::HandshakeNotComplete);
            };
            seal_one(&mut traffic, outgoing, content)?;
            *sealed += content.len();
            if *sealed == CHUNK_BYTES {
                break;
            }
        }
        Ok(())
    }

    /// Says that nothing more will be sent, if the socket takes that now and no record was begun.
    pub fn close(&mut self, mut plain: Plain<'_>) {
        if std::mem::replace(&mut self.is_closed, true) || !self.outgoing.is_empty() {
            return;
        }
        if self.failed.is_some() {
            return self.say_why(&mut plain);
        }
        for _ in 0..MAX_STEPS_TO_CLOSE {
            match self.step(&mut []) {
                Ok(Step::Idle) => break,
                Ok(_) => {}
                Err(_) => return,
            }
        }
        let Session { connection, incoming, outgoing, .. } = self;
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = connection.process_tls_records(incoming.filled()).state
        {
            let sealed = outgoing.append(|room| traffic.queue_close_notify(room), needed);
            if sealed.is_ok() {
                drop(outgoing.flush(&mut plain, Wait::No));
            }
        }
    }
}

fn needed(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(size) => Some(size.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

fn seal_one<D>(
    traffic: &mut WriteTraffic<'_, D>,
    outgoing: &mut Outgoing,
    content: &[u8],
) -> std::result::Result<(), rustls::Error> {
    let sealed = outgoing.append(|room| traffic.encrypt(content, room), needed);
    sealed.map_err(|error| rustls::Error::General(error.to_string()))
}
