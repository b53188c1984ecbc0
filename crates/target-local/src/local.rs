//! The local target: options, choice of engine, abilities, facts.

use crate::direct::{self, Direct};
use crate::posix::PosixSession;
use crate::tree::Tree;
use naslab_core::{Alignment, Caps, Clock, Error, ErrorKind, Result, Session, Target};
use serde::Deserialize;

/// Operations one io_uring session can have in flight.
const URING_MAX_DEPTH: u32 = 4096;

/// How a session reaches its files.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// POSIX at depth 1, else io_uring.
    #[default]
    Auto,
    /// One blocking call per operation.
    Posix,
    /// io_uring.
    Uring,
}

/// Options of a local target.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct LocalOptions {
    /// The folder to work in: absolute and existing.
    pub root: String,
    /// The engine.
    #[serde(default)]
    pub engine: Engine,
    /// Operations each session must be able to have in flight, 1 to 4096.
    #[serde(default = "one")]
    pub depth: u32,
}

fn one() -> u32 {
    1
}

impl LocalOptions {
    /// The folder `root` with the automatic engine at depth 1.
    pub fn new(root: impl Into<String>) -> LocalOptions {
        LocalOptions { root: root.into(), engine: Engine::Auto, depth: 1 }
    }
}

/// A local or mounted folder.
#[derive(Debug)]
pub struct LocalTarget {
    tree: Tree,
    engine: Engine,
    depth: u32,
    direct: Direct,
    alignment: Alignment,
    clock: Clock,
    #[cfg(target_os = "linux")]
    notes: std::sync::Arc<crate::uring::Notes>,
}

impl LocalTarget {
    /// Checks the options, chooses the engine and looks at the folder.
    ///
    /// Errors: Invalid for a bad root or depth, NotFound for a missing root, Unsupported when the depth
    /// asked for needs io_uring and it is not there.
    pub fn new(options: LocalOptions) -> Result<LocalTarget> {
        let tree = Tree::new(&options.root)?;
        let engine = choose(options.engine, options.depth)?;
        let direct = direct::probe(tree.root());
        let alignment = direct::alignment(tree.root(), direct, tree.mount());
        Ok(LocalTarget {
            tree,
            engine,
            depth: options.depth,
            direct,
            alignment,
            clock: Clock::real(),
            #[cfg(target_os = "linux")]
            notes: Default::default(),
        })
    }
}

/// The engine for this depth, never `Auto`.
fn choose(engine: Engine, depth: u32) -> Result<Engine> {
    let refuse = |kind, message: String| Err(Error::new(kind, "choose engine", message).with("depth", depth));
    if depth == 0 || depth > URING_MAX_DEPTH {
        let message = format!("depth must be 1 to {URING_MAX_DEPTH}");
        return refuse(ErrorKind::Invalid, message);
    }
    match engine {
        Engine::Auto if depth == 1 => Ok(Engine::Posix),
        Engine::Posix if depth == 1 => Ok(Engine::Posix),
        Engine::Posix => refuse(
            ErrorKind::Unsupported,
            "engine=posix has one operation in flight per worker: use workers instead of depth, or \
             engine=uring"
                .to_string(),
        ),
        _ => match uring_offered() {
            Ok(()) => Ok(Engine::Uring),
            Err(err) => refuse(
                ErrorKind::Unsupported,
                format!("this system offers no io_uring ({err}): use workers instead of depth"),
            ),
        },
    }
}

#[cfg(target_os = "linux")]
fn uring_offered() -> std::io::Result<()> {
    crate::uring::offered()
}

#[cfg(not(target_os = "linux"))]
fn uring_offered() -> std::io::Result<()> {
    Err(std::io::Error::from_raw_os_error(libc::ENOSYS))
}

impl Target for LocalTarget {
    fn protocol(&self) -> &'static str {
        "local"
    }

    fn caps(&self) -> Caps {
        let posix = self.engine == Engine::Posix;
        let mount = self.tree.mount();
        let in_memory = mount.is_some_and(|mount| mount.is_memory());
        Caps {
            // What a session really allows: the depth asked for, which is 1 for POSIX.
            max_depth: self.depth,
            direct: self.direct != Direct::Refused,
            sync_writes: true,
            flush: true,
            stdio: posix,
            cursor: posix,
            mmap: posix,
            locks: posix,
            keeps_data: true,
            evict: cfg!(target_os = "linux") && !in_memory,
            virtual_time: false,
            wire_counters: mount.is_some_and(|mount| mount.is_nfs()),
            alignment: self.alignment,
            ..Caps::default()
        }
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn connect(&self, worker: u32) -> Result<Box<dyn Session>> {
        let tree = self.tree.for_worker(worker);
        #[cfg(target_os = "linux")]
        if self.engine == Engine::Uring {
            let session = crate::uring::UringSession::new(tree, self.depth, self.notes.clone());
            return Ok(Box::new(session));
        }
        Ok(Box::new(PosixSession::new(tree)))
    }

    fn facts(&self) -> Vec<(String, String)> {
        let fact = |name: &str, value: &str| (name.to_string(), value.to_string());
        let mut facts = Vec::new();
        match self.engine {
            Engine::Uring => facts.push(fact("engine", "uring")),
            _ => facts.push(fact("engine", "posix")),
        }
        if self.direct == Direct::Refused {
            facts.push(fact("direct", "refused"));
        } else {
            let Alignment { offset_bytes, memory_bytes } = self.alignment;
            facts.push(fact("direct_offset_bytes", &offset_bytes.to_string()));
            facts.push(fact("direct_memory_bytes", &memory_bytes.to_string()));
        }
        if let Some(mount) = self.tree.mount() {
            facts.extend(mount.facts());
        }
        #[cfg(target_os = "linux")]
        if self.engine == Engine::Uring {
            facts.extend(self.notes.facts());
        }
        facts
    }
}
