//! From what was typed to an exit code: what is printed about wrong usage, and what the codes mean.

use std::ffi::OsString;
use std::path::Path as FilePath;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Task, Verb};
use crate::demo::directory::DEMO;
use crate::location::{Location, LocationError, redacted};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Well,
    /// Something is off: an audit's finding, an absent key, a failure.
    Off,
    /// Wrong usage: nothing was done.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Well => 0,
            Exit::Off => 1,
            Exit::Usage => 2,
        })
    }
}

/// What is printed in place of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Help or the version, for standard output.
    Help(String),
    /// What is wrong with the usage, for standard error.
    Usage(String),
}

impl Answer {
    /// How the run ends after it.
    pub fn exit(&self) -> Exit {
        match self {
            Answer::Help(_) => Exit::Well,
            Answer::Usage(_) => Exit::Usage,
        }
    }
}

/// Understands what was typed.
///
/// # Errors
///
/// Help, or what is wrong, to be printed. Without the secrets of any URL that was typed.
pub fn parse(typed: impl IntoIterator<Item = OsString>) -> Result<Arguments, Answer> {
    Arguments::try_parse_from(typed).map_err(|error| match error.use_stderr() {
        true => Answer::Usage(redacted(&error.render().to_string())),
        false => Answer::Help(error.render().to_string()),
    })
}

/// Where the store of a verb is; for a demo that was given none, where all of it is.
///
/// # Errors
///
/// What is wrong with the place that was typed: wrong usage.
pub fn place(verb: &Verb) -> Result<Location, LocationError> {
    let address = match verb {
        Verb::Demo(demo) => match &demo.store {
            Some(store) => store,
            None => return Ok(Location::of_directory(demo.directory.as_deref().unwrap_or(FilePath::new(DEMO)))),
        },
        Verb::Load(load) => &load.store,
        Verb::Get(get) => &get.store,
        Verb::Scan(scan) => &scan.store,
        Verb::Status(status) => &status.store,
        Verb::Outcome(outcome) => &outcome.store,
        Verb::Hold(hold) => &hold.store,
        Verb::Fold(fold) => &fold.store,
        Verb::Retire(retire) => &retire.store,
        Verb::Child(child) => match &child.task {
            Task::DemoWriter(writer) => &writer.place.store,
            Task::DemoFolder(place) | Task::DemoAuditor(place) => &place.store,
            Task::LoadWriter(writer) => &writer.load.store,
        },
    };
    Location::parse(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Arguments, Answer> {
        parse(std::iter::once("commit-log").chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn help_is_well_and_wrong_usage_is_two() {
        let Err(help) = typed("--help") else { panic!("no help") };
        assert!(matches!(&help, Answer::Help(text) if text.contains("Exit code: 0 all is well")));
        assert_eq!(help.exit(), Exit::Well);
        for line in ["", "dance", "get", "scan s --limit 3"] {
            let Err(answer) = typed(line) else { panic!("accepted: {line}") };
            assert_eq!(answer.exit(), Exit::Usage, "{line}");
        }
    }

    #[test]
    fn every_verb_has_a_place() {
        let of = |line: &str| place(&typed(line).unwrap().verb).map(|location| location.to_string());
        for line in ["get s k", "scan s", "status s", "outcome s 000102030405060708090a0b0c0dfeff 7 --close"] {
            assert_eq!(of(line).unwrap(), "s", "{line}");
        }
        assert_eq!(of("load s3://b/p --from f").unwrap(), "s3://b/p");
        assert_eq!(of("demo here").unwrap(), "here");
        assert_eq!(of("demo here --store gs://b/p").unwrap(), "gs://b/p");
        assert!(matches!(of("scan http://h/p"), Err(LocationError::Scheme { .. })));
    }

    #[test]
    fn a_secret_typed_at_the_wrong_place_is_not_printed() {
        for line in ["scan s3://k:FAKEsecret@b/p s3://k:FAKEsecret@b/p", "demo --writers s3://k:FAKEsecret@b?x=FAKEsecret"] {
            let Err(Answer::Usage(text)) = typed(line) else { panic!("accepted: {line}") };
            assert!(!text.contains("FAKEsecret"), "{text}");
        }
    }
}
