//! The project's own commands: `cargo xtask <verb>`.

mod check;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask check";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check::run(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
