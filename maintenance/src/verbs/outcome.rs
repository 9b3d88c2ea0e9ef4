//! `outcome`: what became of a transaction whose commit ended as *unknown*.

use commit_log::environment::Environment;
use commit_log::log::Outcome;

use crate::arguments::OutcomeOf;
use crate::command::Exit;
use crate::connect::existing;
use crate::failure::Failure;
use crate::location::Location;

/// Says it, and closes an open slot where that is asked for.
///
/// # Errors
///
/// A store that cannot be read, or a slot that cannot be closed.
pub async fn outcome(of: &OutcomeOf, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let store = existing(location, environment).await?;
    let (transaction, sequence) = (of.transaction, of.sequence);
    let found = match of.close {
        true => store.close_open(transaction, sequence).await.map_err(|error| Failure::store(location, error)),
        false => store.outcome(transaction, sequence).await.map_err(|error| Failure::store(location, error)),
    };
    store.close().await;
    Ok(match found? {
        Outcome::Landed => {
            println!("landed: it is committed, as slot {sequence}");
            Exit::Well
        }
        Outcome::Never => {
            println!("never: it is not committed at slot {sequence} and never will be; its rows may be committed again");
            Exit::Well
        }
        Outcome::Open => {
            println!("open: nothing is at slot {sequence} yet, and it may still land; --close decides it");
            Exit::Off
        }
    })
}
