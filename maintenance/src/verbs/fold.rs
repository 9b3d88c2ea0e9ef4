//! `hold` and `fold`: a store's log is folded into SlateDB's own files, for as long as this process lives or once.

use std::sync::Arc;
use std::time::Duration;

use commit_log::commit_store::{FoldEnd, Folding, Rest};
use commit_log::environment::Environment;
use commit_log::holder::Holder;
use commit_log::publish::Publication;
use commit_log::slot::Sequence;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Hold;
use crate::command::Exit;
use crate::connect::{checked_builder, existing};
use crate::failure::Failure;
use crate::location::{Location, Purpose};

/// Holds until the process is told to end, and says when it does and does not.
///
/// # Errors
///
/// A store that cannot be opened. What disturbs a hold is logged, and the store taken again.
pub async fn hold(location: &Location, hold: &Hold, environment: &Environment) -> Result<Exit, Failure> {
    let system = |error: std::io::Error| Failure::System(error.kind().to_string());
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
    let mut builder = checked_builder(location, Purpose::Read, environment).await?.folding(Folding::Hold);
    if let Some(name) = &hold.publish {
        builder = builder.publication(Publication::by_checkpoint(name, Duration::from_secs(hold.publish_for.get())));
    }
    let store = builder.open_existing().await.map_err(|error| Failure::store(location, error))?;
    let mut holding = store.holding();
    let mut last: Option<Arc<Holder>> = None;
    println!("store           {location}");
    // Bounded by the signals.
    loop {
        let now = holding.borrow_and_update().clone();
        match (&last, &now) {
            (None, Some(holder)) => println!("holds           from {} on", slot(holder.folded().borrow().applied)),
            (Some(_), None) => println!("follows         another process took the store, or it could not be held"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        last = now;
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            // Its sender lives as long as the store.
            changed = holding.changed() => drop(changed),
        }
    }
    let held = holding.borrow().clone();
    store.close().await;
    match held {
        Some(holder) => {
            let ended = holder.ended().await;
            println!("gave it back    folded through {}", slot(holder.folded().borrow().flushed));
            ended.map(|()| Exit::Well).map_err(|error| Failure::store(location, error))
        }
        None => Ok(Exit::Well),
    }
}

/// Folds once, and prints how that ended.
///
/// # Errors
///
/// Why it ended early. The log is intact.
pub async fn fold(location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let store = existing(location, environment).await?;
    let folded = store.fold().await;
    store.close().await;
    let (said, exit) = match folded.map_err(|error| Failure::store(location, error))? {
        FoldEnd::Through(through) => (format!("folded          through {}", slot(through)), Exit::Well),
        FoldEnd::Rested(Rest::Folded) => ("folded          already, or by whoever holds it".to_owned(), Exit::Well),
        FoldEnd::Fenced => ("fenced          another process took the store, and folds".to_owned(), Exit::Well),
        FoldEnd::Rested(Rest::L0Full) => {
            ("not folded      too many unmerged files: something must compact it".to_owned(), Exit::Off)
        }
        FoldEnd::Rested(Rest::Declined | Rest::Closing) => ("not folded      the take was declined".to_owned(), Exit::Off),
    };
    println!("store           {location}\n{said}");
    Ok(exit)
}

fn slot(sequence: Option<Sequence>) -> String {
    sequence.map_or("the beginning".to_owned(), |sequence| format!("slot {sequence}"))
}
