//! Runs what was typed, to an exit code. Every failure is one line on standard error.

pub mod fold;
pub mod load;
pub mod outcome;
pub mod read;
pub mod retire;
pub mod status;

use commit_log::environment::Environment;
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

use crate::arguments::{Task, Verb};
use crate::command::{Exit, place};
use crate::demo;
use crate::failure::Failure;
use crate::location::Location;

/// Threads of a process. Its work is waiting for a bucket; the demo and a load run several of them beside each other.
const THREADS: usize = 2;

/// What is logged to standard error unless `RUST_LOG` says otherwise: what a commit waits for, what is off.
const LOGGED: &str = "commit_log=warn";

/// Runs a verb.
pub fn run(verb: &Verb) -> Exit {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().with_target(false).init();
    let location = match place(verb) {
        Ok(location) => location,
        Err(error) => {
            eprintln!("error: {error}");
            return Exit::Usage;
        }
    };
    match started(verb, &location) {
        Ok(exit) => exit,
        Err(failure) if failure.is_closed_output() => Exit::Well,
        Err(failure) => {
            eprintln!("error: {failure}");
            Exit::Off
        }
    }
}

fn started(verb: &Verb, location: &Location) -> Result<Exit, Failure> {
    let environment = Environment::system().map_err(|error| Failure::System(error.to_string()))?;
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::System(error.kind().to_string()))?;
    // The futures of an open are larger than a thread's stack should carry.
    let result = runtime.block_on(Box::pin(verb_of(verb, location, &environment)));
    // Not waited for: a child's read of its standard input ends with the parent.
    runtime.shutdown_background();
    result
}

async fn verb_of(verb: &Verb, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    match verb {
        Verb::Demo(demo) => Box::pin(demo::run::run(demo, environment)).await,
        Verb::Load(load) => Box::pin(load::load(load, location, environment)).await,
        Verb::Get(get) => read::get(get, location, environment).await,
        Verb::Scan(scan) => read::scan(scan, location, environment).await,
        Verb::Status(status) => status::status(status, location, environment).await,
        Verb::Outcome(outcome) => outcome::outcome(outcome, location, environment).await,
        Verb::Hold(hold) => Box::pin(fold::hold(location, hold, environment)).await,
        Verb::Fold(_) => fold::fold(location, environment).await,
        Verb::Retire(retire) => retire::retire(retire, location, environment).await,
        Verb::Child(child) => Box::pin(demo::children::supervised(&child.task, location, environment)).await,
    }
}

/// Does what a child is told.
///
/// # Errors
///
/// Why it cannot go on.
pub async fn task(task: &Task, location: &Location, teller: &demo::teller::Teller) -> Result<Exit, Failure> {
    match task {
        Task::DemoWriter(writer) => Box::pin(demo::writer::run(writer, location, teller)).await,
        Task::DemoFolder(_) => Box::pin(demo::folder::run(location, teller)).await,
        Task::DemoAuditor(place) => Box::pin(demo::auditor::run(place, location, teller)).await,
        Task::LoadWriter(writer) => Box::pin(load::share::run(writer, location, teller)).await,
    }
}
