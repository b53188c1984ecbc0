//! `naslab-agent serve`: one client of a run of many, which another naslab leads over standard input and output.
//!
//! It ends with its standard input, and when it hears nothing for [`SILENCE`]: the load stops and what it made is removed.

use crate::asks::{Ask, Request, Shared};
use crate::lines::Lines;
use crate::{client, contained, os, signals};
use base64::prelude::{Engine, BASE64_STANDARD};
use naslab_core::{limit, monotonic_ns, Error, ErrorKind, OpenOptions, Result, Target};
use naslab_engine::{
    clean, make_folder, CellOutcome, CellSpec, Events, Left, Point, Progress, Run, RunSpec, MARKER_NAME,
};
use naslab_targets::{make, seam};
use serde_json::{json, Value};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

/// Without a word for so long, whoever leads is gone; as naslab.execution.clients.agent.SILENCE_S.
const SILENCE: Duration = Duration::from_secs(20);
/// Between looks at whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// Whatever hangs, this process does not outlive its leader for longer.
const LEAVE: Duration = Duration::from_secs(30);

/// What the threads have in common.
struct State {
    /// Of the last word heard, by [`monotonic_ns`].
    heard_ns: AtomicU64,
    /// The stage under way shall end.
    stop: AtomicBool,
}

impl State {
    /// Nobody leads any more, or a signal asked for the end.
    fn is_over(&self) -> bool {
        let silent_ns = monotonic_ns().saturating_sub(self.heard_ns.load(Ordering::Relaxed));
        signals::end_wanted() || Duration::from_nanos(silent_ns) > SILENCE
    }
}

/// Answers until standard input ends.
pub fn serve() -> ExitCode {
    os::listen();
    let state = Arc::new(State { heard_ns: AtomicU64::new(monotonic_ns()), stop: AtomicBool::new(false) });
    let out = Shared::stdout();
    let ((asks, asked), (go, went)) = (channel(), channel());
    let reader = Reader { state: state.clone(), out: out.clone(), asks, go };
    std::thread::spawn(move || reader.read(std::io::stdin().lock()));
    let mut server = Server { state: state.clone(), out, go: went, run: None, script: None };
    while !state.is_over() {
        match asked.recv_timeout(LOOK) {
            Ok(request) => server.answer(request),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    signals::want_end();
    std::thread::spawn(|| {
        std::thread::sleep(LEAVE);
        std::process::exit(1);
    });
    drop(server);
    ExitCode::SUCCESS
}

/// Reads requests in a thread of its own, and answers what must not wait for a target.
struct Reader {
    state: Arc<State>,
    out: Shared,
    asks: Sender<Request>,
    go: Sender<u64>,
}

impl Reader {
    fn read(&self, input: impl BufRead) {
        for line in input.lines() {
            let Ok(line) = line else { break };
            let received = monotonic_ns();
            self.state.heard_ns.store(received, Ordering::Relaxed);
            match serde_json::from_str(&line) {
                Ok(request) => self.take(request, received),
                Err(error) => {
                    let message = format!("a request that this agent does not know: {error}");
                    self.out.answer(0, &Err(Error::new(ErrorKind::Invalid, "request", message)));
                }
            }
        }
        signals::want_end();
    }

    fn take(&self, request: Request, received_ns: u64) {
        match request.ask {
            Ask::Clock => {
                let reply = json!({"received_ns": received_ns, "sent_ns": monotonic_ns()});
                self.out.answer(request.id, &Ok(reply));
            }
            Ask::Interrupt => {
                self.state.stop.store(true, Ordering::Relaxed);
                self.out.answer(request.id, &Ok(json!({})));
            }
            Ask::Go { at_ns } => {
                let _ = self.go.send(at_ns);
                self.out.answer(request.id, &Ok(json!({})));
            }
            _ => {
                let _ = self.asks.send(request);
            }
        }
    }
}

/// Carries requests out, one after another.
struct Server {
    state: Arc<State>,
    out: Shared,
    go: Receiver<u64>,
    run: Option<(Run, Arc<dyn Target>)>,
    script: Option<PathBuf>,
}

impl Server {
    fn answer(&mut self, request: Request) {
        let state = self.state.clone();
        let outcome = limit::watched(move || state.is_over(), || self.outcome(request.ask));
        self.out.answer(request.id, &outcome);
    }

    fn outcome(&mut self, ask: Ask) -> Result<Value> {
        match ask {
            Ask::Describe => Ok(json!({
                "naslab_version": env!("CARGO_PKG_VERSION"), "python": null, "host": client::host(),
                "pid": std::process::id(), "client": client::describe(),
            })),
            Ask::Probe { target, depth } => Ok(json!({"probe": seam::probe(&*make(&target, depth)?)?})),
            Ask::Mark { target, folder, mark } => mark_folder(&target, &folder, &mark),
            Ask::Sees { target, folder, name } => sees(&target, &folder, &name),
            Ask::Unmark { target, folder } => {
                contained::check_folder(&folder).map_err(invalid)?;
                let left = clean(&mut *make(&target, 1)?.connect(0)?, &folder)?;
                Ok(json!({ "left": left }))
            }
            Ask::Open { spec, mark, depth } => self.open(spec, &mark, depth),
            Ask::Script { data } => self.keep(&data),
            Ask::Stage { cells } => self.stage(cells),
            Ask::Finish => Ok(json!({"left": self.finish()})),
            Ask::Clock | Ask::Go { .. } | Ask::Interrupt => Err(invalid("not to be queued".to_string())),
        }
    }

    fn open(&mut self, spec: Value, mark: &str, depth: u32) -> Result<Value> {
        let spec: RunSpec = serde_json::from_value(spec).map_err(|error| invalid(error.to_string()))?;
        contained::check_client(&spec).map_err(invalid)?;
        let target = make(&spec.target, depth)?;
        self.state.stop.store(false, Ordering::Relaxed);
        self.run = Some((Run::open(&spec, &target, mark)?, target));
        Ok(json!({}))
    }

    /// A private file with the script; the next one replaces it.
    fn keep(&mut self, data: &str) -> Result<Value> {
        let script = BASE64_STANDARD.decode(data).map_err(|error| invalid(format!("script: {error}")))?;
        let path = std::env::temp_dir().join(format!("naslab-agent-{}-{}.script", std::process::id(), monotonic_ns()));
        let fail = |error| Error::new(ErrorKind::Io, "script", format!("{}: {error}", path.display()));
        let mut file = os::create_private(&path).map_err(fail)?;
        self.forget_script();
        self.script = Some(path.clone());
        file.write_all(&script).map_err(fail)?;
        Ok(json!({ "path": path }))
    }

    fn forget_script(&mut self) {
        if let Some(path) = self.script.take() {
            let _ = std::fs::remove_file(path);
        }
    }

    fn stage(&mut self, cells: Value) -> Result<Value> {
        let cells: Vec<CellSpec> = serde_json::from_value(cells).map_err(|error| invalid(error.to_string()))?;
        while self.go.try_recv().is_ok() {} // of a cell that ended before it began
        let (run, target) = self.run.as_mut().ok_or_else(|| invalid("no run is open".to_string()))?;
        let mut heard = Heard { lines: self.out.lines(), go: &self.go, state: &self.state };
        let end = run.stage(&cells, &mut heard)?;
        seam::end(&end, &**target)
    }

    /// Removes what the run made; what is left.
    fn finish(&mut self) -> Vec<Left> {
        let mut heard = Heard { lines: self.out.lines(), go: &self.go, state: &self.state };
        self.run.take().map_or_else(Vec::new, |(mut run, _)| run.finish(&mut heard))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.finish();
        self.forget_script();
    }
}

fn mark_folder(target: &Value, folder: &str, mark: &str) -> Result<Value> {
    contained::check_folder(folder).map_err(invalid)?;
    let target = make(target, 1)?;
    make_folder(&mut *target.connect(0)?, &target.clock(), folder, mark)?;
    Ok(json!({}))
}

fn sees(target: &Value, folder: &str, name: &str) -> Result<Value> {
    contained::check_folder(folder).and_then(|()| contained::check_name(name)).map_err(invalid)?;
    let mut session = make(target, 1)?.connect(0)?;
    match session.stat(&format!("{folder}/{MARKER_NAME}")) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(json!({"sees": false})),
        found => found?,
    };
    let options = OpenOptions { read: true, write: true, create: naslab_core::Create::New, ..OpenOptions::default() };
    let file = session.open(&format!("{folder}/{name}"), &options)?;
    session.close(file)?;
    Ok(json!({"sees": true}))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, "request", message)
}

/// Events as lines, and the waits for the other clients.
struct Heard<'a> {
    lines: Lines<Shared>,
    go: &'a Receiver<u64>,
    state: &'a State,
}

impl Events for Heard<'_> {
    fn before_cell(&mut self, id: u64) -> Result<bool> {
        self.lines.before_cell(id)
    }

    fn progress(&mut self, progress: &Progress) {
        self.lines.progress(progress);
    }

    fn cell(&mut self, outcome: CellOutcome) -> Result<()> {
        self.lines.cell(outcome)
    }

    fn together(&mut self, id: u64, point: Point) -> Result<u64> {
        self.lines.write("together", &seam::together(id, point), None)?;
        loop {
            match self.go.recv_timeout(LOOK) {
                Ok(at_ns) => return Ok(at_ns),
                Err(_) if self.interrupted() => {
                    let message = "the cell ended before its window began";
                    return Err(Error::new(ErrorKind::Interrupted, "together", message));
                }
                Err(_) => {}
            }
        }
    }

    fn interrupted(&mut self) -> bool {
        self.lines.unwritten.is_some() || self.state.stop.load(Ordering::Relaxed) || self.state.is_over()
    }
}
