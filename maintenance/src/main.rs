//! The command `commit-log`: understands what was typed and hands it on. What it does is in the library.

use std::io::Write;
use std::process::ExitCode;

use commit_log_maintenance::command::{self, Answer};
use commit_log_maintenance::verbs;

fn main() -> ExitCode {
    match command::parse(std::env::args_os()) {
        Ok(arguments) => verbs::run(&arguments.verb).into(),
        Err(answer) => {
            // A terminal that is gone takes nothing; the exit code still says how it ended.
            drop(match &answer {
                Answer::Help(text) => std::io::stdout().write_all(text.as_bytes()),
                Answer::Usage(text) => std::io::stderr().write_all(text.as_bytes()),
            });
            answer.exit().into()
        }
    }
}
