//! Cloning a store: fold it, then let SlateDB clone what is folded, with a log of the clone's own.

use std::sync::Arc;

use object_store::path::Path;
use slatedb::admin::{Admin, AdminBuilder, CloneSourceSpec};
use slatedb::{ErrorKind, VersionedManifest};

use crate::adoption::{AdoptionError, newest_record};
use crate::bucket::{Bucket, Deadline};
use crate::error::{Corruption, Unavailable};
use crate::holder::HoldError;
use crate::identity::LogId;
use crate::record::AdoptionRecord;
use crate::slot::Sequence;
use crate::wal::{AdminError, LogAdmin};

use super::{Store, StoreError};

/// A clone that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// The identity of the clone's log.
    pub log: LogId,
    /// The first sequence of the clone's log.
    pub origin: Sequence,
    /// The last slot of the source whose rows the clone has. `None` when the source had none.
    pub through: Option<Sequence>,
}

impl From<&AdoptionRecord> for Cloned {
    fn from(record: &AdoptionRecord) -> Cloned {
        let through = Sequence::new(record.adopted_from.last_l0_seq);
        Cloned { log: record.log, origin: record.origin, through }
    }
}

/// Why a store was not cloned.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloneError {
    /// One of the two paths lies in the other. Nothing was done.
    #[error("a clone at {target} would lie in the store's own folder, or the store in the clone's")]
    SamePlace {
        /// The clone's path.
        target: Path,
    },
    /// Something else is at the target: a store, a clone of another state, files, or what a deletion left. It was not touched.
    #[error("something else is at {target}: choose another path")]
    TargetExists {
        /// The clone's path.
        target: Path,
    },
    /// Somebody committed between the fold and the clone. Nothing is left at the target: try again.
    #[error("somebody committed while the store was cloned: try again")]
    Tail,
    /// A clone was begun at the target and cannot be finished: the source has gone on since, or the checkpoint that it was begun
    /// from is gone. Delete what is at the target, with SlateDB's `Admin::delete_db` and a [`LogAdmin`], and clone again.
    #[error("an unfinished clone is at {target}: delete it and clone again")]
    Unfinished {
        /// The clone's path.
        target: Path,
        /// Why it cannot be finished.
        #[source]
        source: Arc<slatedb::Error>,
    },
    /// The store could not be folded.
    #[error(transparent)]
    Fold(#[from] HoldError),
    /// The source could not be read.
    #[error(transparent)]
    Source(#[from] StoreError),
    /// A record of the target is damaged or cannot be read.
    #[error(transparent)]
    Adoption(AdoptionError),
    /// A log is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed. What was done so far is gone on with when the clone is tried again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The bucket failed under SlateDB. As [`CloneError::Unavailable`].
    #[error("the bucket is unavailable")]
    StoreUnavailable(#[source] Arc<slatedb::Error>),
    /// It was not done in time. As [`CloneError::Unavailable`].
    #[error("the store was not cloned in time")]
    TimedOut,
    /// SlateDB refused.
    #[error("SlateDB refused the clone: {0}")]
    Refused(#[source] Arc<slatedb::Error>),
}

impl From<AdoptionError> for CloneError {
    fn from(error: AdoptionError) -> CloneError {
        error.sorted(CloneError::Adoption)
    }
}

/// Clones `store` to the path `target` of its bucket: the clone has everything that was committed to `store` before this was
/// called, and a log of its own. From then on commits of the two are separate.
///
/// It folds first, which takes the store from whoever holds it. All processes of the source may go on; a holder is told that it
/// was fenced and takes the store again. If one of them commits between the fold and the clone, it is [`CloneError::Tail`]: on a
/// store that is committed to without a pause, pause.
///
/// No file is copied. The clone reads SlateDB's files of the source, which a checkpoint in the source's manifest keeps for as
/// long as the clone needs them; deleting the clone with SlateDB's `Admin::delete_db` gives it up. Do not delete the source
/// before its clones.
///
/// One call at a time may clone to a path. A call that was interrupted, or dropped, which withdraws nothing that was sent, is made
/// again and ends on the same log. A finished clone of the very state that the source is in counts as done, whatever was
/// committed to the clone since.
///
/// # Errors
///
/// See [`CloneError`].
pub async fn clone_store(store: &Store, target: impl Into<Path>) -> Result<Cloned, CloneError> {
    let target = target.into();
    let source = store.log().bucket();
    if source.root().prefix_matches(&target) || target.prefix_matches(source.root()) {
        return Err(CloneError::SamePlace { target });
    }
    let cloning = Cloning::new(store, target);
    let found = match cloning.find_target().await? {
        Target::Finished(cloned) => return cloning.same_state(cloned).await,
        found @ (Target::Vacant | Target::Begun) => found,
    };
    store.hold().await?.stop().await?;
    match cloning.in_time(Box::pin(cloning.clone_folded())).await? {
        Ok(()) => cloning.finished().await?.ok_or_else(|| cloning.target_exists()),
        Err(error) => Err(cloning.failed(found, error).await),
    }
}

/// What is at the target.
#[derive(Clone, Copy)]
enum Target {
    /// Nothing at all.
    Vacant,
    /// A clone of the source that was not finished.
    Begun,
    /// A clone of the source.
    Finished(Cloned),
}

struct Cloning<'a> {
    store: &'a Store,
    source: &'a Bucket,
    target: Bucket,
    admin: Admin,
}

impl Cloning<'_> {
    fn new(store: &Store, target: Path) -> Cloning<'_> {
        let source = store.log().bucket();
        let (objects, environment, pace) = (source.object_store(), source.environment(), source.pace());
        let target = Bucket::new(objects.clone(), target, environment.clone(), pace.clone());
        let wal_admin = LogAdmin::new(objects.clone(), environment.clone(), pace.clone());
        let admin = AdminBuilder::new(target.root().clone(), objects.clone())
            .with_wal_admin(Arc::new(wal_admin))
            .with_system_clock(environment.clock.clone())
            .with_seed(environment.randomness.number())
            .build();
        Cloning { store, source, target, admin }
    }

    fn target_exists(&self) -> CloneError {
        CloneError::TargetExists { target: self.target.root().clone() }
    }

    /// SlateDB asks the bucket for ever, so each of its steps is bounded here.
    async fn in_time<T>(&self, step: impl Future<Output = T>) -> Result<T, CloneError> {
        let deadline = Deadline::after(self.source.environment(), self.store.inner.options.holding.store_call);
        deadline.bound(step).await.map_err(|_| CloneError::TimedOut)
    }

    async fn find_target(&self) -> Result<Target, CloneError> {
        let manifest = self.in_time(Box::pin(self.admin.read_manifest(None))).await?.map_err(sorted)?;
        match manifest {
            None if self.target.is_vacant(&self.target.deadline()).await? => Ok(Target::Vacant),
            Some(manifest) if !manifest.initialized() && self.is_clone(&manifest) => Ok(Target::Begun),
            Some(manifest) if self.is_clone(&manifest) => {
                self.finished().await?.map(Target::Finished).ok_or_else(|| self.target_exists())
            }
            None | Some(_) => Err(self.target_exists()),
        }
    }

    /// Whether a manifest of the target was cloned from the source. SlateDB names the direct parent last.
    fn is_clone(&self, manifest: &VersionedManifest) -> bool {
        manifest.external_dbs().last().is_some_and(|parent| parent.path == self.source.root().to_string())
    }

    async fn finished(&self) -> Result<Option<Cloned>, CloneError> {
        Ok(newest_record(&self.target, &self.target.deadline()).await?.as_ref().map(Cloned::from))
    }

    /// A clone that is there is as good as done if the source is where it was then.
    async fn same_state(&self, cloned: Cloned) -> Result<Cloned, CloneError> {
        let head = self.store.latest().await?.head();
        let through = cloned.through.filter(|through| *through >= self.store.log().record().origin);
        if head == through { Ok(cloned) } else { Err(self.target_exists()) }
    }

    async fn clone_folded(&self) -> Result<(), slatedb::Error> {
        let environment = self.source.environment();
        let builder = self.admin.create_clone_builder_from_source(CloneSourceSpec::new(self.source.root().clone()));
        let builder = builder.with_system_clock(environment.clock.clone()).with_seed(environment.randomness.number());
        Box::pin(builder.build()).await
    }

    async fn failed(&self, found: Target, error: slatedb::Error) -> CloneError {
        let gone_on = matches!(AdminError::of(&error), Some(AdminError::Tail { .. } | AdminError::Retired { .. }));
        let may_pass = error.kind() == ErrorKind::Unavailable;
        match found {
            // SlateDB has bound the target to the checkpoint that it began with, which will never cover what landed since.
            Target::Vacant if gone_on => match self.in_time(Box::pin(self.admin.delete_db(true))).await {
                Ok(Ok(_)) => CloneError::Tail,
                Ok(Err(_)) | Err(_) => self.unfinished(error),
            },
            Target::Begun if !may_pass => self.unfinished(error),
            Target::Vacant | Target::Begun | Target::Finished(_) => sorted(error),
        }
    }

    fn unfinished(&self, error: slatedb::Error) -> CloneError {
        CloneError::Unfinished { target: self.target.root().clone(), source: Arc::new(error) }
    }
}

fn sorted(error: slatedb::Error) -> CloneError {
    match AdminError::of(&error).cloned() {
        Some(AdminError::Unavailable(failure)) => failure.into(),
        Some(AdminError::Corrupt(corruption)) => corruption.into(),
        Some(AdminError::Adoption(error)) => error.into(),
        Some(AdminError::Tail { .. } | AdminError::Retired { .. }) => CloneError::Tail,
        None if error.kind() == ErrorKind::Unavailable => CloneError::StoreUnavailable(Arc::new(error)),
        None => CloneError::Refused(Arc::new(error)),
    }
}
