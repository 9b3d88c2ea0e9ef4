//! The embedder's store: open, view, latest, transact, outcome, close.

mod builder;
mod clone;
mod commit;
mod current;
mod follow;
mod open_error;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::ByteRangeBounds;
use tokio::sync::watch;

use crate::bucket::Deadline;
use crate::commit_store::{Duty, FoldEnd, Folder, Hooks, Reason, Role};
use crate::envelope::Refused;
use crate::holder::{HoldError, Holder};
use crate::identity::TransactionId;
use crate::log::{CloseError, Closing, Outcome, Proof, SlotLog};
use crate::retire::{Collector, RetireError, RetireMode, RetireOptions, Retired};
use crate::slot::Sequence;
use crate::take::{TakeStore, TakeWith};
use crate::transaction::Transaction;
use crate::view::{ReadError, Scan, ScanOrder, View};

use current::Current;
use follow::Follower;

pub use builder::{CustomiseDb, StoreBuilder};
pub use clone::{CloneError, Cloned, clone_store};
pub use commit::{CommitError, Committed};
pub use current::{Looks, StoreError};
pub use open_error::OpenError;

/// A SlateDB store that several processes commit to.
///
/// Clones share one connection. Every process that has one open may read and commit at any time; nothing but the bucket is
/// between them. What was committed is folded into SlateDB's own files by whoever wins every 1,024th slot, or by one that
/// [holds](StoreBuilder::folding) the store. Close it at the end; dropped unclosed, it closes itself a little later.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    current: Arc<Current>,
    options: StoreBuilder,
    follower: Follower,
    collector: Collector,
    duty: Duty,
}

impl Store {
    /// The store at `path` of `bucket`.
    pub fn builder(path: impl Into<object_store::path::Path>, bucket: Arc<dyn object_store::ObjectStore>) -> StoreBuilder {
        StoreBuilder::new(path, bucket)
    }

    async fn load(log: SlotLog, options: StoreBuilder) -> Result<Store, OpenError> {
        let deadline = log.bucket().deadline();
        let collector = Collector::new(log.clone());
        let base_settings = options.base_settings(log.bucket());
        let loaded = Current::load(log, base_settings, options.looks.clone(), options.max_tail_bytes, &deadline).await;
        let current = Arc::new(loaded.map_err(OpenError::from)?);
        let follower = Follower::start(&current, options.poll, options.looks.interval);
        let log = current.log().clone();
        let take: Option<Arc<dyn TakeStore>> = Some(Arc::new(taker(&log, &options)));
        let (publication, settings) = (options.publication.clone(), options.commit_store_settings());
        let hooks = Hooks { take, publication, settings, ..Hooks::default() };
        let duty = Duty::begin(Folder::new(log, hooks));
        Ok(Store { inner: Arc::new(Inner { current, options, follower, collector, duty }) })
    }

    /// The log underneath.
    pub fn log(&self) -> &SlotLog {
        self.inner.current.log()
    }

    /// The store as this process knows it. No request; it has this process's own commits and may lag behind others'.
    pub fn view(&self) -> View {
        self.inner.current.view()
    }

    /// The store as of now: everything that was acknowledged, by any process, before this was called.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; never an older view.
    pub async fn latest(&self) -> Result<View, StoreError> {
        self.inner.current.catch_up(Proof::Always, &self.deadline()).await?;
        Ok(self.view())
    }

    /// The value of `key` in [`Store::view`].
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.view().get(key).await
    }

    /// Scans a range of keys of [`Store::view`]. The scan keeps its view, whatever is committed meanwhile.
    pub fn scan(&self, range: impl ByteRangeBounds, order: ScanOrder) -> Scan {
        self.view().scan(range, order)
    }

    /// Scans the keys of [`Store::view`] that begin with `prefix`.
    pub fn scan_prefix(&self, prefix: &[u8], order: ScanOrder) -> Scan {
        self.view().scan_prefix(prefix, order)
    }

    /// Begins a transaction at [`Store::view`]. Nothing is sent before [`Store::commit`].
    pub fn begin(&self) -> Transaction {
        let randomness = &self.log().bucket().environment().randomness;
        Transaction::new(TransactionId::random(randomness), self.view(), self.log().rules().clone())
    }

    /// Commits a transaction: all of it, or nothing. It is checked against every slot since it began and offered again after
    /// lost races, as it is.
    ///
    /// Dropping the future withdraws nothing that was sent.
    ///
    /// # Errors
    ///
    /// See [`CommitError`]: a *conflict* means that nothing is committed and the transaction may be run again; *not served* that
    /// it is committed, and this process cannot read it yet; *not published* that it is, and readers of a fixed state may lack it;
    /// *unknown* that it may be committed.
    pub async fn commit(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        let committed = commit::commit(&self.inner.current, transaction.into_parts(), &self.budget()).await?;
        self.won(committed).await
    }

    /// Does what a win obliges to.
    async fn won(&self, committed: Committed) -> Result<Committed, CommitError> {
        let Committed { transaction, sequence, .. } = committed;
        self.inner.duty.won(sequence);
        let published = self.inner.duty.publish(sequence).await;
        published.map_err(|source| CommitError::NotPublished { transaction, sequence, source })?;
        Ok(committed)
    }

    /// Runs a transaction until it commits: begins, runs `body`, commits, and all over again after a conflict, until the
    /// transaction budget has passed. Every run is a transaction of its own; at most one of them commits. The body is given
    /// the transaction and gives it back with a value of its own.
    ///
    /// # Errors
    ///
    /// What `body` returns ends it, with nothing committed. Otherwise as [`Store::commit`].
    pub async fn transact<T, E, F, Run>(&self, mut body: F) -> Result<(T, Committed), TransactError<E>>
    where
        F: FnMut(Transaction) -> Run,
        Run: Future<Output = Result<(Transaction, T), E>>,
    {
        let budget = self.budget();
        let mut backoff = self.log().bucket().pace().backoff(self.log().bucket().environment());
        loop {
            let (transaction, value) = body(self.begin()).await.map_err(TransactError::Body)?;
            match commit::commit(&self.inner.current, transaction.into_parts(), &budget).await {
                Ok(committed) => return Ok((value, self.won(committed).await?)),
                Err(error) if error.is_conflict() && !budget.has_passed() => {
                    // The next run reads at the newest view that is known; others that met the same conflict run then, too.
                    let _ = budget.bound(backoff.wait()).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What became of a transaction that was offered at `sequence`: for whoever was told *unknown*, or died before it was told
    /// anything. Writes nothing.
    ///
    /// # Errors
    ///
    /// A failed read.
    pub async fn outcome(&self, transaction: TransactionId, sequence: Sequence) -> Result<Outcome, StoreError> {
        Ok(self.log().outcome(transaction, sequence, &self.deadline()).await?)
    }

    /// Makes sure that a transaction's outcome at `sequence` is known from here on: closes the sequence if it is still open.
    ///
    /// # Errors
    ///
    /// See [`CloseError`].
    pub async fn close_open(&self, transaction: TransactionId, sequence: Sequence) -> Result<Outcome, CloseError> {
        self.log().close_open(transaction, sequence, Closing::Filler, &self.deadline()).await
    }

    /// Waits until [`Store::view`] shows slot `sequence`, until the deadline of a call. While somebody waits the log is asked
    /// more often.
    ///
    /// # Errors
    ///
    /// [`StoreError::TimedOut`] when it did not come to be in time.
    pub async fn wait_until_visible(&self, sequence: Sequence) -> Result<(), StoreError> {
        let deadline = self.deadline();
        self.inner.follower.wait_until(&self.inner.current, sequence, &deadline).await
    }

    /// Holds the store: folds what is committed into SlateDB's own files until it is stopped, fenced, or cannot go on. Taking
    /// it fences whoever held it before.
    ///
    /// # Errors
    ///
    /// See [`HoldError`].
    pub async fn hold(&self) -> Result<Holder, HoldError> {
        let options = &self.inner.options;
        let holding = options.commit_store_settings().holding();
        Holder::take(self.log().clone(), &taker(self.log(), options), holding).await
    }

    /// What this process is to the store by the setting [`StoreBuilder::folding`].
    pub fn role(&self) -> Role {
        self.inner.duty.holder().map_or(Role::Following, |_| Role::Holding)
    }

    /// The holder that [`Folding::Hold`](crate::commit_store::Folding::Hold) makes, while there is one, and every change of that.
    pub fn holding(&self) -> watch::Receiver<Option<Arc<Holder>>> {
        self.inner.duty.holding()
    }

    /// Folds the store once, now, if there is anything to fold and nobody else is at it, and retires what nothing needs any more.
    ///
    /// # Errors
    ///
    /// See [`HoldError`]. The log is intact.
    pub async fn fold(&self) -> Result<FoldEnd, HoldError> {
        Box::pin(self.inner.duty.fold(Reason::Asked)).await
    }

    /// Retires now what nothing needs of the log, instead of when a holder's garbage collector runs. Any process may, at any time,
    /// and be killed while it does.
    ///
    /// # Errors
    ///
    /// See [`RetireError`]. What was done stays done.
    pub async fn retire(&self, options: &RetireOptions, mode: RetireMode) -> Result<Retired, RetireError> {
        Box::pin(self.inner.collector.run(options, mode)).await
    }

    /// Looks now whether the store was folded, instead of by count and time.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub async fn look(&self) -> Result<(), StoreError> {
        self.inner.current.look_now(&self.deadline()).await
    }

    /// Ends its tasks and closes what it has open. What it holds by its own setting it folds, flushes and gives back first; else
    /// this sends no request. Views of it that read files fail from here on. Idempotent.
    pub async fn close(&self) {
        self.inner.duty.end().await;
        self.inner.follower.stop();
        self.inner.current.close().await;
    }

    fn deadline(&self) -> Deadline {
        self.log().bucket().deadline()
    }

    fn budget(&self) -> Deadline {
        let budget = Deadline::after(self.log().bucket().environment(), self.inner.options.transaction_budget);
        // SUBTLE: a deadline runs from when it is first asked, and the first run of a body asks nobody.
        budget.has_passed();
        budget
    }
}

/// What opens the store of `log` as its writer, as its options say.
fn taker(log: &SlotLog, options: &StoreBuilder) -> impl TakeStore + use<> {
    let options = options.clone();
    let randomness = log.bucket().environment().randomness.clone();
    TakeWith::new(log.clone(), move |session| {
        let options = options.clone();
        let seed = randomness.number();
        async move { options.open_db(&session, seed).await.map(Some) }
    })
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("log", self.log()).finish_non_exhaustive()
    }
}

/// A transaction of [`Store::transact`] that did not commit.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransactError<E> {
    /// The body gave up. Nothing is committed.
    #[error(transparent)]
    Body(E),
    /// It could not be committed, or its outcome is not known.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// What goes wrong inside the body of a transaction, for bodies that have no errors of their own.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BodyError {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A write was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}
