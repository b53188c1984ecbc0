//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
Usage: naslab-agent run [SPEC.json] [--progress] [--password-fd N]
       naslab-agent serve
       naslab-agent --help | --version

Carries out a naslab run without Python. Reads the specification that `naslab`
hands to its engine from SPEC.json, or from standard input without a name or
with -. Writes what happens to standard output, one JSON object a line; the last
one has the event `end`. Works in a folder of its own under the target's root
and removes it at the end, also after Ctrl-C, SIGTERM or SIGHUP: what was
measured until then is written.

With serve it is one client of a run of many, led over standard input and output
by the naslab that started it (`naslab ... --hosts`), and ends with them.

  --progress         also write a line now and then during a cell
  --password-fd N    read the password of an smb target from file descriptor N;
                     without it, from the variable NASLAB_PASSWORD
  --version          print the version
  --help             print this text

Exit codes: 0 complete, 1 a cell or the run failed, 2 refused before anything was
measured, 130 interrupted.
";

/// What is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Help,
    Version,
    Run(Options),
    Serve,
}

/// Of `run`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// None: standard input.
    pub spec: Option<PathBuf>,
    pub progress: bool,
    pub password_fd: Option<i32>,
}

/// Reads the arguments behind the program's name. The error is a sentence that names the argument.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Asked, String> {
    let mut arguments = arguments.peekable();
    match arguments.next().as_deref().map(|first| first.to_string_lossy()).as_deref() {
        Some("--help" | "-h") => Ok(Asked::Help),
        Some("--version" | "-V") => Ok(Asked::Version),
        Some("run") => parse_run(arguments),
        Some("serve") => match arguments.next() {
            None => Ok(Asked::Serve),
            Some(more) => Err(format!("{}: serve takes no argument; leave it out", more.to_string_lossy())),
        },
        Some(other) => Err(format!("{other}: no such command; write `naslab-agent run SPEC.json`, or see --help")),
        None => Err("no command; write `naslab-agent run SPEC.json`, or see --help".to_string()),
    }
}

fn parse_run(mut arguments: impl Iterator<Item = OsString>) -> Result<Asked, String> {
    let (mut options, mut named) = (Options::default(), false);
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        match text.as_str() {
            "--help" | "-h" => return Ok(Asked::Help),
            "--progress" => options.progress = true,
            "--password-fd" => {
                let value = arguments.next().ok_or("--password-fd: give the number of an open file descriptor")?;
                options.password_fd = Some(descriptor(&value.to_string_lossy())?);
            }
            _ if text.starts_with("--password-fd=") => {
                options.password_fd = Some(descriptor(&text["--password-fd=".len()..])?);
            }
            _ if text.starts_with('-') && text != "-" => {
                return Err(format!("{text}: no such option; see `naslab-agent --help`"));
            }
            _ if named => return Err(format!("{text}: a second specification; give one")),
            _ => {
                named = true;
                options.spec = (text != "-").then(|| PathBuf::from(argument));
            }
        }
    }
    Ok(Asked::Run(options))
}

fn descriptor(text: &str) -> Result<i32, String> {
    text.parse::<i32>()
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(|| format!("--password-fd {text}: give the number of an open file descriptor, as 3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Asked, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_run_is_asked_for_in_several_ways() {
        let spec = |name: &str| Some(PathBuf::from(name));
        assert_eq!(parsed("run"), Ok(Asked::Run(Options::default())));
        assert_eq!(parsed("run -"), Ok(Asked::Run(Options::default())));
        let all = Options { spec: spec("a.json"), progress: true, password_fd: Some(3) };
        assert_eq!(parsed("run --progress a.json --password-fd 3"), Ok(Asked::Run(all)));
        let other = Options { spec: spec("a.json"), progress: false, password_fd: Some(0) };
        assert_eq!(parsed("run --password-fd=0 a.json"), Ok(Asked::Run(other)));
        assert_eq!(parsed("run --help"), Ok(Asked::Help));
        assert_eq!(parsed("--version"), Ok(Asked::Version));
        assert_eq!(parsed("serve"), Ok(Asked::Serve));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, named) in [
            ("", "no command"),
            ("walk", "walk: no such command"),
            ("run --fast", "--fast: no such option"),
            ("serve --fast", "--fast: serve takes no argument"),
            ("run a b", "b: a second specification"),
            ("run --password-fd", "--password-fd: give the number"),
            ("run --password-fd secret", "--password-fd secret: give the number"),
            ("run --password-fd=-1", "--password-fd -1: give the number"),
        ] {
            let message = parsed(line).unwrap_err();
            assert!(message.starts_with(named), "{line}: {message}");
        }
    }
}
