//! Threads of a connection for calls that wait for a disk: syncs, and reads of what is not in memory. They are
//! started when first needed.

use crate::folder::Folder;
use crate::nfs::Patience;
use crate::outgoing::Outgoing;
use crate::serve::serve;
use crate::xdr::Writer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};

const MOST: usize = 8;

pub(crate) struct Helpers {
    shared: Arc<Shared>,
    calls: Sender<Vec<u8>>,
    started: usize,
}

struct Shared {
    folder: Arc<Folder>,
    outgoing: Arc<Outgoing>,
    calls: Mutex<Receiver<Vec<u8>>>,
    /// Calls given and not yet answered.
    open: AtomicUsize,
}

impl Helpers {
    pub(crate) fn new(folder: Arc<Folder>, outgoing: Arc<Outgoing>) -> Self {
        let (calls, receiver) = channel();
        let shared = Shared { folder, outgoing, calls: Mutex::new(receiver), open: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared), calls, started: 0 }
    }

    /// Whether every call given was answered.
    pub(crate) fn are_idle(&self) -> bool {
        self.shared.open.load(Ordering::Acquire) == 0
    }

    /// Has one of them carry out a call.
    pub(crate) fn give(&mut self, record: Vec<u8>) {
        let open = self.shared.open.fetch_add(1, Ordering::AcqRel) + 1;
        if open > self.started && self.started < MOST {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("naslab-nfs-wait".into());
            self.started += usize::from(thread.spawn(move || shared.work()).is_ok());
        }
        if self.started == 0 {
            self.shared.answer(&record, &mut Writer::default()); // no thread can be had
        } else {
            let _ = self.calls.send(record);
        }
    }
}

impl Shared {
    /// Until the connection drops its end.
    fn work(&self) {
        let mut out = Writer::default();
        loop {
            let call = self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
            let Ok(record) = call else { return };
            self.answer(&record, &mut out);
        }
    }

    fn answer(&self, record: &[u8], out: &mut Writer) {
        out.truncate(0);
        if serve(&self.folder, record, out, Patience::Waits).is_ok() {
            let _ = self.outgoing.send(out.filled()); // a broken connection is found out by its own thread
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.outgoing.wake();
    }
}
