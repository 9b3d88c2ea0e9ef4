//! Opens the store of a place, with what a place means for its settings.

use std::time::Duration;

use commit_log::commit_store::Folding;
use commit_log::environment::Environment;
use commit_log::store::{Store, StoreBuilder};
use object_store::ObjectStoreExt;
use slatedb::config::Settings;

use crate::failure::Failure;
use crate::location::{Location, Opened, Purpose, Trouble, explain};

/// How often SlateDB's compactor, in a process that holds the store for a load or a demo, looks for files to merge and for
/// what was merged. Such a process makes in seconds what a store makes in an hour, and whoever started it waits for its end.
const COMPACTOR_POLL: Duration = Duration::from_millis(500);

/// How often the compactor's worker there says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// After so much silence its jobs are given to another. A holder that was killed in the middle of one leaves its successor
/// waiting for that at the limit of unmerged files, for 30 seconds by default.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);

/// SlateDB's settings for a store at `location`, held by a process that ends soon.
pub fn settings(location: &Location) -> Settings {
    let mut settings = Settings::default();
    if let Some(compactor) = &mut settings.compactor_options {
        compactor.poll_interval = COMPACTOR_POLL;
        compactor.commit_compacted_interval = COMPACTOR_POLL;
        compactor.worker_heartbeat_timeout = HEARTBEAT_TIMEOUT;
        if let Some(worker) = &mut compactor.worker {
            worker.compactions_poll_interval = COMPACTOR_POLL;
            worker.heartbeat_interval = HEARTBEAT;
        }
    }
    if let Some(collector) = &mut settings.garbage_collector_options {
        collector.boundary_files_enabled = location.boundary_files_enabled();
    }
    settings
}

/// The builder of the store at `location`. Creates a directory that is not there for [`Purpose::Write`], and nothing else.
///
/// # Errors
///
/// A place that cannot be used.
pub fn builder(location: &Location, purpose: Purpose, environment: &Environment) -> Result<StoreBuilder, Failure> {
    Ok(builder_of(location, &location.open(purpose)?, environment))
}

/// As [`builder`], after one request that shows whether the bucket is there and answers: the log would try again for as long
/// as a call may take, where whoever typed a wrong name wants to know at once.
///
/// # Errors
///
/// A place that cannot be used.
pub async fn checked_builder(
    location: &Location,
    purpose: Purpose,
    environment: &Environment,
) -> Result<StoreBuilder, Failure> {
    let opened = location.open(purpose)?;
    if location.directory().is_none() {
        greet(location, &opened).await?;
    }
    Ok(builder_of(location, &opened, environment))
}

/// Opens the store at `location`, which must be there.
///
/// # Errors
///
/// A place that cannot be used, and a store that cannot be opened.
pub async fn existing(location: &Location, environment: &Environment) -> Result<Store, Failure> {
    let builder = checked_builder(location, Purpose::Read, environment).await?;
    builder.open_existing().await.map_err(|error| Failure::store(location, error))
}

fn builder_of(location: &Location, opened: &Opened, environment: &Environment) -> StoreBuilder {
    // What is typed says what is done: no verb folds but those that are for it.
    let builder = Store::builder(opened.path.clone(), opened.bucket.clone()).folding(Folding::Never);
    builder.environment(environment.clone()).settings(settings(location))
}

async fn greet(location: &Location, opened: &Opened) -> Result<(), Failure> {
    // No object has this name: records count from one.
    let name = opened.path.clone().join("adoption").join("00000000000000000000");
    let Err(error) = opened.bucket.get(&name).await else { return Ok(()) };
    match explain(&error) {
        Trouble::NoSuchObject { .. } => Ok(()),
        trouble @ (Trouble::NoSuchBucket
        | Trouble::PermissionDenied
        | Trouble::Unauthenticated
        | Trouble::NoCredentials
        | Trouble::Unreachable
        | Trouble::TimedOut
        | Trouble::WrongRegion
        | Trouble::NoSpace
        | Trouble::ReadOnly
        | Trouble::Changed { .. }
        | Trouble::Said { .. }) => Err(Failure::Bucket { location: location.clone(), trouble }),
    }
}
