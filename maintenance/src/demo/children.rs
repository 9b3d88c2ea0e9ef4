//! A child of a demo or a load: does what it is told until it is done or its parent is gone, and tells why it cannot go on.

use commit_log::environment::Environment;
use futures::future::{Either, select};
use tokio::process::Command;

use super::events::Event;
use super::supervise::parent_gone;
use super::teller::Teller;
use crate::arguments::Task;
use crate::command::Exit;
use crate::failure::Failure;
use crate::location::Location;
use crate::verbs;

/// The command that starts this very program as a child with `task`.
///
/// # Errors
///
/// When this program does not know where it is.
pub fn command(task: &Task) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::System(error.kind().to_string()))?;
    let mut command = Command::new(program);
    // A group of its own, so that Ctrl-C reaches the parent alone, which ends its children.
    command.args(task.typed()).process_group(0);
    Ok(command)
}

/// Runs `task`.
///
/// # Errors
///
/// What could not even be told to the parent.
pub async fn supervised(task: &Task, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let began_at = match task {
        Task::DemoWriter(writer) => writer.place.began_at,
        Task::DemoFolder(place) | Task::DemoAuditor(place) => place.began_at,
        Task::LoadWriter(_) => environment.now_millis(),
    };
    let teller = Teller::new(environment.clone(), began_at);
    // The folder alone is asked to end, and ends in its own way.
    let worked = match task {
        Task::DemoFolder(_) => verbs::task(task, location, &teller).await,
        Task::DemoWriter(_) | Task::DemoAuditor(_) | Task::LoadWriter(_) => {
            let gone = parent_gone().map_err(|error| Failure::Child(error.kind().to_string()))?;
            match select(Box::pin(verbs::task(task, location, &teller)), Box::pin(gone)).await {
                Either::Left((worked, _)) => worked,
                Either::Right(((), _)) => return Ok(Exit::Off),
            }
        }
    };
    let (event, exit) = match worked {
        Ok(exit) => (Event::Done, exit),
        Err(failure) => (Event::Failed { why: failure.to_string() }, Exit::Off),
    };
    // A parent that is gone hears nothing, and nobody waits for the exit code.
    drop(teller.tell(event));
    Ok(exit)
}
