//! A writer of a load: commits its share of the file, a batch of rows a transaction.

use std::num::NonZeroUsize;

use commit_log::store::{CommitError, Store};

use crate::arguments::LoadWriter;
use crate::command::Exit;
use crate::connect::builder;
use crate::demo::events::Event;
use crate::demo::teller::Teller;
use crate::failure::Failure;
use crate::location::{Location, Purpose};
use crate::resolve::{Resolved, resolve};
use crate::rows::{Row, deal};

/// A batch ends early at so many bytes: half of the largest slot, so that a row more still fits.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// How often one batch is tried. Blind writes conflict with nothing, so each try more means that the bucket failed for a
/// whole budget of time, or that a put which nothing was heard of never landed.
const MAX_TRIES: usize = 20;

/// Commits a share, and tells after each batch how many rows are committed.
///
/// # Errors
///
/// Why it cannot go on. What it told is committed.
pub async fn run(task: &LoadWriter, location: &Location, teller: &Teller) -> Result<Exit, Failure> {
    let writers = NonZeroUsize::new(usize::from(task.load.writers)).unwrap_or(NonZeroUsize::MIN);
    let builder = builder(location, Purpose::Read, teller.environment())?;
    let store = builder.open_existing().await.map_err(|error| Failure::store(location, error))?;
    let mut share = Share { store: &store, location, teller, loaded: 0, batch: Vec::new(), bytes: 0 };
    for row in super::rows_of(&task.load)? {
        let row = row?;
        if deal(&row.key, writers) != usize::from(task.share) {
            continue;
        }
        share.bytes += row.key.len() + row.value.len();
        share.batch.push(row);
        if share.batch.len() >= task.load.batch as usize || share.bytes >= MAX_BATCH_BYTES {
            share.commit().await?;
        }
    }
    share.commit().await?;
    store.close().await;
    Ok(Exit::Well)
}

struct Share<'s> {
    store: &'s Store,
    location: &'s Location,
    teller: &'s Teller,
    loaded: u64,
    batch: Vec<Row>,
    bytes: usize,
}

impl Share<'_> {
    /// Commits the batch, once: it is tried again only when it is known that it is not in.
    async fn commit(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.settled().await?;
        self.loaded += self.batch.len() as u64;
        self.batch.clear();
        self.bytes = 0;
        let told = self.teller.tell(Event::Loaded { rows: self.loaded });
        told.map_err(|error| Failure::Child(error.kind().to_string()))
    }

    async fn settled(&self) -> Result<(), Failure> {
        let failed = |error| Failure::store(self.location, error);
        let mut last = CommitError::TooOld;
        for _ in 0..MAX_TRIES {
            let mut transaction = self.store.begin();
            for Row { key, value } in &self.batch {
                transaction.put(key.clone(), value.clone()).map_err(|refused| failed(refused.into()))?;
            }
            match self.store.commit(transaction).await {
                Ok(_) | Err(CommitError::NotServed { .. } | CommitError::NotPublished { .. }) => return Ok(()),
                Err(CommitError::Unknown { transaction, sequence, source }) => {
                    let resolved = resolve(self.store, transaction, sequence).await;
                    match resolved.map_err(|error| Failure::store(self.location, error))? {
                        Resolved::Landed => return Ok(()),
                        Resolved::Never => last = CommitError::Unknown { transaction, sequence, source },
                    }
                }
                Err(error) if error.is_conflict() || matches!(error, CommitError::OutOfTime { .. }) => last = error,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(last))
    }
}
