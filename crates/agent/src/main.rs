//! `naslab-agent`: one run without Python, also on the file server itself.
//!
//! It reads a specification (docs/notes/0001-seams.md), measures its cells, and writes what happens to standard output,
//! one JSON object a line. It works in a folder of its own under the target's root, which it removes.

mod asks;
mod client;
mod contained;
mod lines;
mod options;
mod os;
mod owner;
mod password;
mod run;
mod serve;
mod signals;
mod texts;

use options::Asked;
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: no thread runs yet, and nothing that is started later inherits it.
    let given = password::of_environment();
    let asked = match options::parse(std::env::args_os().skip(1)) {
        Ok(asked) => asked,
        Err(message) => return run::refused(&message),
    };
    match asked {
        Asked::Help => print!("{}", options::HELP),
        Asked::Version => println!("naslab-agent {}", env!("CARGO_PKG_VERSION")),
        Asked::Run(options) => return run::run(&options, given),
        Asked::Serve => return serve::serve(),
    }
    ExitCode::SUCCESS
}
