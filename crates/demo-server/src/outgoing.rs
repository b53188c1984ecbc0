//! Replies on their way out, from the connection's own thread and from its helpers.

use rustix::event::{poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{send, SendFlags};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

/// How long a reply waits for a client that does not take it before it is put aside: a client that writes and
/// does not read meanwhile would otherwise wait for us while we wait for it.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// Put aside at most; then no further calls are taken.
const MOST_ASIDE_BYTES: usize = 64 << 20;

#[derive(Default)]
struct Aside {
    replies: VecDeque<Vec<u8>>,
    /// Bytes of the first that are sent.
    sent: usize,
    bytes: usize,
}

/// The sending half of a connection.
pub(crate) struct Outgoing {
    stream: TcpStream,
    aside: Mutex<Aside>,
    wake: OwnedFd,
}

/// What to wait for on the connection.
pub(crate) struct Waiting {
    pub(crate) may_receive: bool,
    pub(crate) must_send: bool,
}

impl Outgoing {
    pub(crate) fn new(stream: TcpStream) -> Result<Self, Errno> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { stream, aside: Mutex::default(), wake })
    }

    fn aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Sends a reply, or puts its rest aside.
    pub(crate) fn send(&self, reply: &[u8]) -> Result<(), Errno> {
        let mut aside = self.aside();
        let sent = if aside.replies.is_empty() { self.push(reply, true)? } else { 0 };
        if sent < reply.len() {
            aside.bytes += reply.len() - sent;
            aside.replies.push_back(reply[sent..].to_vec());
        }
        Ok(())
    }

    /// Sends as much as the client takes; how much that is.
    fn push(&self, reply: &[u8], waits: bool) -> Result<usize, Errno> {
        let mut sent = 0;
        while sent < reply.len() {
            match send(&self.stream, &reply[sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(more) => sent += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut ready = [PollFd::new(&self.stream, PollFlags::OUT)];
                    if !waits || poll(&mut ready, Some(&PATIENCE))? == 0 {
                        break;
                    }
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(sent)
    }

    /// Sends what was put aside, as far as the client takes it.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        let mut aside = self.aside();
        while let Some(reply) = aside.replies.front() {
            let sent = self.push(&reply[aside.sent..], false)?;
            aside.bytes -= sent;
            aside.sent += sent;
            if aside.sent < aside.replies[0].len() {
                break;
            }
            aside.replies.pop_front();
            aside.sent = 0;
        }
        Ok(())
    }

    pub(crate) fn waiting(&self) -> Waiting {
        let aside = self.aside();
        Waiting { may_receive: aside.bytes < MOST_ASIDE_BYTES, must_send: !aside.replies.is_empty() }
    }

    /// Wakes the connection's thread, if it waits in `wait`.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Waits until there is something to receive or to send, or for a helper. Answers whether to receive.
    pub(crate) fn wait(&self) -> Result<bool, Errno> {
        let waiting = self.waiting();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, waiting.may_receive);
        flags.set(PollFlags::OUT, waiting.must_send);
        let mut ready = [PollFd::new(&self.stream, flags), PollFd::new(&self.wake, PollFlags::IN)];
        poll(&mut ready, None)?;
        let found = ready[0].revents();
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        if found.intersects(PollFlags::ERR) {
            return Err(Errno::CONNRESET);
        }
        Ok(waiting.may_receive && found.intersects(PollFlags::IN | PollFlags::HUP))
    }
}
