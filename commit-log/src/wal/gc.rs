//! `WalGc`: SlateDB's own collector says when; what may go, the manifests say.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, pending, select};
use slatedb::wal::{WalError, WalFileRange, WalGc};
use tokio::sync::{OnceCell, watch};

use crate::adoption::AdoptionError;
use crate::place::LogPlace;
use crate::retire::{Collector, RetireError, RetireMode, RetireOptions};

/// Retires pages of the log whenever SlateDB's collector runs.
pub struct LogGc {
    place: LogPlace,
    collector: OnceCell<Collector>,
    retain_pages: NonZeroU32,
    /// Whether the store is being closed: SlateDB's close waits for a pass that is under way.
    closing: Option<watch::Receiver<bool>>,
}

impl LogGc {
    /// A collector of the log there that keeps `retain_pages` pages, the one of the floor included. While there is no log its passes
    /// do nothing.
    pub fn new(place: impl Into<LogPlace>, retain_pages: NonZeroU32) -> LogGc {
        LogGc { place: place.into(), collector: OnceCell::new(), retain_pages, closing: None }
    }

    /// The same, whose passes end when `closing` turns true.
    pub(super) fn until(self, closing: watch::Receiver<bool>) -> LogGc {
        LogGc { closing: Some(closing), ..self }
    }

    async fn collector(&self) -> Result<Option<&Collector>, AdoptionError> {
        let found = self.collector.get_or_try_init(async || {
            let log = self.place.find(&self.place.bucket().deadline()).await?;
            Ok::<_, AdoptionError>(Collector::new(log))
        });
        match found.await {
            Ok(collector) => Ok(Some(collector)),
            Err(AdoptionError::NoLog) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl WalGc for LogGc {
    /// The manifests are read here once more: `referenced_ranges` are made of WAL ids alone, and of a half-applied manifest the
    /// replay point leads. `min_age` only delays: it is measured between two of the store's own timestamps.
    async fn collect(&self, _referenced_ranges: Vec<WalFileRange>, min_age: Duration, dry_run: bool) -> Result<(), WalError> {
        let options = RetireOptions { retain_pages: self.retain_pages, min_age };
        let mode = if dry_run { RetireMode::DryRun } else { RetireMode::Retire };
        let Some(collector) = self.collector().await.map_err(|error| wal_error(error.into()))? else { return Ok(()) };
        let pass = Box::pin(collector.run(&options, mode));
        let retired = match &self.closing {
            None => pass.await,
            Some(closing) => {
                // A pass may be dropped anywhere.
                match select(pass, Box::pin(closed(closing.clone()))).await {
                    Either::Left((retired, _)) => retired,
                    Either::Right(_) => return Ok(()),
                }
            }
        };
        let retired = retired.map_err(wal_error)?;
        if !retired.pages.is_empty() || retired.swept > 0 {
            tracing::info!(pages = ?retired.pages, swept = retired.swept, dry_run, "the commit log was retired");
        }
        Ok(())
    }
}

/// Returns when the store is being closed. A session that was dropped can close nothing: then it never does.
async fn closed(mut closing: watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        pending().await
    }
}

fn wal_error(error: RetireError) -> WalError {
    match error {
        RetireError::Corrupt(corruption) => WalError::DataError(Arc::new(corruption)),
        RetireError::Adoption(_) | RetireError::CheckpointWithoutManifest => WalError::DataError(Arc::new(error)),
        RetireError::Unavailable(_) | RetireError::Manifest(_) | RetireError::TimedOut(_) => {
            WalError::Unavailable(Arc::new(error))
        }
    }
}

impl fmt::Debug for LogGc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogGc of {:?}", self.place)
    }
}
