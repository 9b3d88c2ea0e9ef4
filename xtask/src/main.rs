//! The project's own commands: `cargo xtask <verb>`. One file a verb.

mod cargo;
mod check;
mod mutants;
mod options;
mod worlds;

use std::process::ExitCode;

/// A verb: what it is called, what it does, and the doing.
type Verb = (&'static str, &'static str, fn(&options::Options) -> Result<(), String>);

const VERBS: &[Verb] = &[
    ("check", "everything that must hold before a change lands", check::run),
    ("worlds", "run log worlds: [--count N] [--first-seed S]", worlds::run),
    ("mutants", "show that the log worlds find broken code: [--only NAME]", mutants::run),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let Some((_, _, run)) = VERBS.iter().find(|(name, _, _)| *name == verb) else {
        eprintln!("usage: cargo xtask <verb>");
        for (name, about, _) in VERBS {
            eprintln!("  {name}: {about}");
        }
        return ExitCode::FAILURE;
    };
    match options::Options::parse(arguments).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
