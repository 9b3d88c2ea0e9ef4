//! The command `commit-log`: understands what was typed and hands it on. What it does is in the library.

use std::io::Write;
use std::process::ExitCode;

use commit_log_maintenance::command::{self, Answer, Exit};

fn main() -> ExitCode {
    let arguments = match command::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(answer) => {
            // A terminal that is gone takes nothing; the exit code still says how it ended.
            drop(match &answer {
                Answer::Help(text) => std::io::stdout().write_all(text.as_bytes()),
                Answer::Usage(text) => std::io::stderr().write_all(text.as_bytes()),
            });
            return answer.exit().into();
        }
    };
    let (location, purpose) = match command::place(&arguments.verb) {
        Ok(place) => place,
        Err(error) => {
            eprintln!("error: {error}");
            return Exit::Usage.into();
        }
    };
    match location.open(purpose) {
        Ok(_) => eprintln!("error: the verbs are not there yet: {location} was opened and nothing was done"),
        Err(error) => eprintln!("error: {error}"),
    }
    Exit::Off.into()
}
