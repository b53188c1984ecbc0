//! One client: its calls are carried out as they come, on one thread. A call that would wait for a disk while
//! others wait behind it goes to a helper.

use crate::folder::Folder;
use crate::helpers::Helpers;
use crate::nfs::Patience;
use crate::outgoing::Outgoing;
use crate::records::{Record, Records};
use crate::serve::{serve, Served};
use crate::xdr::Writer;
use rustix::io::Errno;
use rustix::net::{recv, RecvFlags};
use std::net::TcpStream;
use std::sync::Arc;

/// Replies are sent when so many bytes came together, or when no further call is here.
const TOGETHER_BYTES: usize = 128 << 10;

pub(crate) struct Connection {
    folder: Arc<Folder>,
    stream: TcpStream,
    outgoing: Arc<Outgoing>,
    helpers: Helpers,
    records: Records,
    out: Writer,
}

/// The connection is over: its end, garbage, or an error.
pub(crate) struct Over;

impl From<Errno> for Over {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl Connection {
    pub(crate) fn new(folder: Arc<Folder>, stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        let outgoing = Arc::new(Outgoing::new(stream.try_clone()?)?);
        let helpers = Helpers::new(Arc::clone(&folder), Arc::clone(&outgoing));
        Ok(Self { folder, stream, outgoing, helpers, records: Records::new(), out: Writer::default() })
    }

    /// Serves until the client goes.
    pub(crate) fn run(mut self) -> Over {
        loop {
            if let Err(over) = self.turn() {
                return over;
            }
        }
    }

    /// All calls that are here, then some more bytes.
    fn turn(&mut self) -> Result<(), Over> {
        while let Some(record) = self.records.next().map_err(|_| Over)? {
            self.take(record)?;
            if self.out.len() >= TOGETHER_BYTES {
                self.send()?;
            }
        }
        self.send()?;
        self.receive()
    }

    fn take(&mut self, record: Record) -> Result<(), Over> {
        let bytes = match &record {
            Record::Here(at) => self.records.bytes(at.clone()),
            Record::Joined(bytes) => bytes,
        };
        if serve(&self.folder, bytes, &mut self.out, Patience::Never).map_err(|_| Over)? == Served::Replied {
            return Ok(());
        }
        if self.records.has_more() || self.more_came() {
            self.helpers.give(bytes.to_vec());
            return Ok(());
        }
        if self.out.len() > 0 {
            self.outgoing.send(self.out.filled())?; // those before need not wait with it
            self.out.truncate(0);
        }
        serve(&self.folder, bytes, &mut self.out, Patience::Waits).map_err(|_| Over).map(drop)
    }

    /// Whether the next call has arrived by now.
    fn more_came(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut [0u8; 1][..], flags).is_ok_and(|(count, _)| count > 0)
    }

    fn send(&mut self) -> Result<(), Over> {
        if self.out.len() > 0 {
            self.outgoing.send(self.out.filled())?;
            self.out.truncate(0);
        }
        Ok(())
    }

    /// Receives at least one byte. Waits for nothing else while nobody else can have put a reply aside.
    fn receive(&mut self) -> Result<(), Over> {
        loop {
            self.outgoing.flush()?;
            let is_alone = self.helpers.are_idle() && !self.outgoing.waiting().must_send;
            if !is_alone && !self.outgoing.wait()? {
                continue;
            }
            let flags = if is_alone { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
            match recv(&self.stream, self.records.room(), flags) {
                Ok((_, 0)) => return Err(Over),
                Ok((_, received)) => {
                    self.records.filled(received);
                    return Ok(());
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(Over),
            }
        }
    }
}
