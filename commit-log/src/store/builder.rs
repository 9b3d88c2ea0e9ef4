//! How a store is opened: what the embedder gives, and what the library sets after it.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::admin::AdminBuilder;
use slatedb::config::{DbReaderOptions, Settings};
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::{Db, DbBuilder, DbReaderBuilder, GarbageCollectorBuilder, MergeOperator, PrefixExtractor, PrefixTarget};

use crate::adoption::{FreshLog, find, find_or_begin};
use crate::bucket::{Bucket, Pace};
use crate::commit_store::{CommitStoreSettings, Folding};
use crate::envelope::Route;
use crate::environment::{Environment, NoRandomness};
use crate::holder::HoldingOptions;
use crate::log::{BeforePut, LogOptions, SlotLog, WinCheck};
use crate::publish::Publication;
use crate::retire::RetireOptions;
use crate::take::TakeError;
use crate::view::{BaseSettings, Customise, SharedCache};
use crate::wal::WriterSession;

use super::current::Looks;
use super::{OpenError, Store};

/// The capacity of the block cache that a store has unless it is given one or told to have none.
const BLOCK_CACHE_BYTES: u64 = 64 << 20;

/// The capacity of its cache of indexes and filters.
const META_CACHE_BYTES: u64 = 32 << 20;

/// The number of the store in its own cache, which nobody else uses.
const OWN_CACHE_ID: u64 = 0;

/// How many looks at the store must fit the lifetime of the compactor's checkpoints: those keep the files that a view reads
/// until the view's base was replaced.
const LOOKS_A_LIFETIME: u32 = 3;

/// The embedder's own settings of the `Db`.
pub type CustomiseDb = Arc<dyn Fn(DbBuilder<Path>) -> DbBuilder<Path> + Send + Sync>;

/// Opens a [`Store`].
#[derive(Clone)]
#[must_use]
pub struct StoreBuilder {
    path: Path,
    bucket: Arc<dyn ObjectStore>,
    pub(super) environment: Option<Environment>,
    pub(super) pace: Pace,
    fresh: FreshLog,
    log: LogOptions,
    pub(super) settings: Settings,
    reader_options: DbReaderOptions,
    cache: Cache,
    extractor: Option<Arc<dyn PrefixExtractor>>,
    prefix_bytes: usize,
    merge_operator: Option<Arc<dyn MergeOperator + Send + Sync>>,
    customise_db: Option<CustomiseDb>,
    customise_reader: Option<Customise>,
    pub(super) holding: HoldingOptions,
    pub(super) looks: Looks,
    pub(super) poll: Duration,
    pub(super) transaction_budget: Duration,
    pub(super) max_tail_bytes: usize,
    retain_pages: NonZeroU32,
    folding: Folding,
    fold_every: NonZeroU64,
    pub(super) publication: Option<Publication>,
}

#[derive(Clone)]
enum Cache {
    Own,
    Shared(SharedCache),
    None,
}

impl StoreBuilder {
    /// The store at `path` of `bucket`, with defaults for everything.
    pub fn new(path: impl Into<Path>, bucket: Arc<dyn ObjectStore>) -> StoreBuilder {
        StoreBuilder {
            path: path.into(),
            bucket,
            environment: None,
            pace: Pace::default(),
            fresh: FreshLog::default(),
            log: LogOptions::default(),
            settings: Settings::default(),
            reader_options: DbReaderOptions { object_store_max_retries: None, ..DbReaderOptions::default() },
            cache: Cache::Own,
            extractor: None,
            prefix_bytes: 0,
            merge_operator: None,
            customise_db: None,
            customise_reader: None,
            holding: HoldingOptions::default(),
            looks: Looks::default(),
            poll: Duration::from_secs(1),
            transaction_budget: Duration::from_secs(30),
            max_tail_bytes: 1 << 30,
            retain_pages: RetireOptions::default().retain_pages,
            folding: Folding::default(),
            fold_every: CommitStoreSettings::default().fold_every,
            publication: None,
        }
    }

    /// Time and randomness. The machine's own by default.
    pub fn environment(mut self, environment: Environment) -> StoreBuilder {
        self.environment = Some(environment);
        self
    }

    /// Deadlines and retries. See [`Pace::default`].
    pub fn pace(mut self, pace: Pace) -> StoreBuilder {
        self.pace = pace;
        self
    }

    /// The properties of the log, where none is yet. A log that is there keeps its own.
    pub fn fresh_log(mut self, fresh: FreshLog) -> StoreBuilder {
        self.fresh = fresh;
        self
    }

    /// The largest slot in bytes, 8 MiB by default.
    pub fn max_slot_bytes(mut self, bytes: usize) -> StoreBuilder {
        self.log.max_slot_bytes = bytes;
        self
    }

    /// Called with transaction and sequence before the first put of every offer, to make the pair durable: whoever lost
    /// track of a commit asks for its outcome with it.
    pub fn before_put(mut self, before_put: BeforePut) -> StoreBuilder {
        self.log.before_put = Some(before_put);
        self
    }

    /// When the ledger is read after a put was answered *created*: always by default. [`WinCheck::WhenSlow`] is refused at open
    /// where the log does not promise the retention that it needs; a log that is begun takes it from
    /// [`FreshLog::least_retention`].
    pub fn win_check(mut self, check: WinCheck) -> StoreBuilder {
        self.log.win_check = check;
        self
    }

    /// SlateDB's settings for the `Db`, when this process holds the store. The `wal_options` of its garbage collector say how
    /// often the log is retired, and the `min_age` there how much younger the newest slot must be than the one after a page's
    /// last. The library switches off the collection of WAL fences, which this store does not have.
    pub fn settings(mut self, settings: Settings) -> StoreBuilder {
        self.settings = settings;
        self
    }

    /// SlateDB's options for readers. The library sets the poll interval and `skip_wal_replay`.
    pub fn reader_options(mut self, options: DbReaderOptions) -> StoreBuilder {
        self.reader_options = options;
        self
    }

    /// A block cache that the `Db` and all readers share. `id` is the store's number in it. A store has a cache of its own
    /// by default, of 64 MiB for blocks and 32 MiB for indexes and filters.
    pub fn block_cache(mut self, cache: Arc<dyn DbCache>, id: u64) -> StoreBuilder {
        self.cache = Cache::Shared(SharedCache { cache, id });
        self
    }

    /// No block cache: every read of a file goes to the bucket.
    pub fn without_block_cache(mut self) -> StoreBuilder {
        self.cache = Cache::None;
        self
    }

    /// The store's segment extractor, whose prefixes all have `prefix_bytes` bytes: prefixes that can nest would let two
    /// processes land slots that no store takes together. Keys without such a prefix are refused before they are offered.
    pub fn segment_extractor(mut self, extractor: Arc<dyn PrefixExtractor>, prefix_bytes: usize) -> StoreBuilder {
        self.extractor = Some(extractor);
        self.prefix_bytes = prefix_bytes;
        self
    }

    /// The store's merge operator. Operands are refused in transactions; it serves rows that are older than the log.
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator + Send + Sync>) -> StoreBuilder {
        self.merge_operator = Some(operator);
        self
    }

    /// Anything else of the `Db`. It runs before the library sets plug and clock.
    pub fn customise_db(
        mut self,
        customise: impl Fn(DbBuilder<Path>) -> DbBuilder<Path> + Send + Sync + 'static,
    ) -> StoreBuilder {
        self.customise_db = Some(Arc::new(customise));
        self
    }

    /// Anything else of a reader. It runs before the library sets mode, clock and options.
    pub fn customise_reader(
        mut self,
        customise: impl Fn(DbReaderBuilder<Path>) -> DbReaderBuilder<Path> + Send + Sync + 'static,
    ) -> StoreBuilder {
        self.customise_reader = Some(Arc::new(customise));
        self
    }

    /// How this process holds the store, when it does. The limit of unmerged files follows the settings.
    pub fn holding(mut self, options: HoldingOptions) -> StoreBuilder {
        self.holding = options;
        self
    }

    /// What this process does to have the store folded. By cadence by default: no process of its own is needed for that.
    pub fn folding(mut self, folding: Folding) -> StoreBuilder {
        self.folding = folding;
        self
    }

    /// The winner of every so many slots sees to it that the store is folded, 1,024 by default. The same in every process.
    pub fn fold_every(mut self, slots: NonZeroU64) -> StoreBuilder {
        self.fold_every = slots;
        self
    }

    /// Publishes every commit before it is reported, and what this process folds by its setting [`StoreBuilder::folding`]. The same
    /// in every process. By default nothing is published.
    pub fn publication(mut self, publication: Publication) -> StoreBuilder {
        self.publication = Some(publication);
        self
    }

    /// When this process looks whether the store was folded. See [`Looks::default`].
    pub fn looks(mut self, looks: Looks) -> StoreBuilder {
        self.looks = looks;
        self
    }

    /// How often the log is asked for more while nobody waits. A second by default.
    pub fn poll(mut self, interval: Duration) -> StoreBuilder {
        self.poll = interval;
        self
    }

    /// How long a transaction may be tried again in all. Thirty seconds by default.
    pub fn transaction_budget(mut self, budget: Duration) -> StoreBuilder {
        self.transaction_budget = budget;
        self
    }

    /// How many bytes of unfolded rows this process holds at most, 1 GiB by default. Past it the store must be folded.
    pub fn max_tail_bytes(mut self, bytes: usize) -> StoreBuilder {
        self.max_tail_bytes = bytes;
        self
    }

    /// How many pages of the log stay behind the store's last flush, the page of that flush included. Two by default. The more
    /// stay, the fewer processes that are slow must start again from the store.
    pub fn retain_pages(mut self, pages: NonZeroU32) -> StoreBuilder {
        self.retain_pages = pages;
        self
    }

    /// Opens a store that is there, for reading and committing. Creates nothing.
    ///
    /// # Errors
    ///
    /// [`AdoptionError::NoLog`](crate::adoption::AdoptionError::NoLog) where there is none.
    pub async fn open_existing(self) -> Result<Store, OpenError> {
        let bucket = self.bucket_of(self.environment_or_system()?);
        let record = find(&bucket, &bucket.deadline()).await?;
        Box::pin(self.open_log(bucket, record)).await
    }

    /// Opens a store, and begins its log where nothing is. The bucket is probed first.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn open(self) -> Result<Store, OpenError> {
        let bucket = self.bucket_of(self.environment_or_system()?);
        let record = find_or_begin(&bucket, &self.fresh, &bucket.deadline()).await?;
        Box::pin(self.open_log(bucket, record)).await
    }

    fn environment_or_system(&self) -> Result<Environment, NoRandomness> {
        self.environment.clone().map_or_else(Environment::system, Ok)
    }

    fn bucket_of(&self, environment: Environment) -> Bucket {
        Bucket::new(self.bucket.clone(), self.path.clone(), environment, self.pace.clone())
    }

    async fn open_log(mut self, bucket: Bucket, record: crate::record::AdoptionRecord) -> Result<Store, OpenError> {
        self.check_settings()?;
        let (expected, found) = (self.log.win_check.retention_needed(), record.least_retention());
        if found < expected {
            return Err(OpenError::LeastRetention { expected, found });
        }
        if let Some(route) = self.route() {
            if !route(&record.reserved_key) {
                return Err(OpenError::ReservedKeyNotRouted { prefix_bytes: self.prefix_bytes });
            }
            self.log.route = Some(route);
        }
        if let Cache::Own = self.cache {
            self.cache = Cache::Shared(SharedCache { cache: own_cache(), id: OWN_CACHE_ID });
        }
        let log = SlotLog::new(bucket, record, self.log.clone());
        Store::load(log, self).await
    }

    fn check_settings(&mut self) -> Result<(), OpenError> {
        let expected = self.looks.interval * LOOKS_A_LIFETIME;
        match &self.settings.compactor_options {
            Some(compactor) if compactor.checkpoint_lifetime < expected => {
                return Err(OpenError::CheckpointLifetime { expected, found: compactor.checkpoint_lifetime });
            }
            Some(_) => {}
            None => self.holding.external_compaction = true,
        }
        self.holding.l0_limit = self.settings.l0_max_ssts.min(self.settings.l0_max_ssts_per_key);
        if let Some(collector) = &mut self.settings.garbage_collector_options {
            collector.wal_fence_options = None;
        }
        Ok(())
    }

    fn route(&self) -> Option<Route> {
        let extractor = self.extractor.clone()?;
        let prefix_bytes = self.prefix_bytes;
        Some(Arc::new(move |key| {
            let target = PrefixTarget::Point(bytes::Bytes::copy_from_slice(key));
            prefix_bytes > 0 && extractor.prefix_len(&target) == Some(prefix_bytes)
        }))
    }

    /// How the store is folded on behalf of this process.
    pub(super) fn commit_store_settings(&self) -> CommitStoreSettings {
        CommitStoreSettings {
            folding: self.folding,
            fold_every: self.fold_every,
            retain_pages: self.retain_pages,
            holding: self.holding.clone(),
            max_unflushed_bytes: self.settings.max_unflushed_bytes,
            ..CommitStoreSettings::default()
        }
    }

    /// How bases of the store are opened.
    pub(super) fn base_settings(&self, bucket: &Bucket) -> BaseSettings {
        let environment = bucket.environment();
        let seed = environment.randomness.number();
        let customise = self.customise_reader.clone();
        let defaults = BaseSettings::new(self.bucket.clone(), self.path.clone(), environment.clock.clone());
        BaseSettings {
            cache: self.shared_cache(),
            options: self.reader_options.clone(),
            merge_operator: self.merge_operator.clone(),
            segment_extractor: self.extractor.clone(),
            customise: Some(Arc::new(move |builder| {
                let builder = builder.with_seed(seed);
                customise.iter().fold(builder, |builder, customise| customise(builder))
            })),
            read_deadline: self.pace.call,
            ..defaults
        }
    }

    /// The latest time that the compactor's jobs tell, by the clock of whoever held the store then: of their names and of their
    /// workers' heartbeats. SlateDB takes no job with an older name, and gives the store up instead; and by a clock behind a dead
    /// worker's last heartbeat that worker's job would not be taken over before the clock has caught up.
    async fn latest_of_jobs_millis(&self, session: &WriterSession, seed: u64) -> Result<Option<i64>, TakeError> {
        let reader = AdminBuilder::new(self.path.clone(), self.bucket.clone());
        let reader = reader.with_seed(seed).with_system_clock(session.clock()).build();
        let Some(jobs) = reader.read_compactions(None).await? else { return Ok(None) };
        let told = jobs.recent_compactions().flat_map(|job| {
            let heartbeat = job.worker().map(|worker| worker.last_heartbeat_ms);
            [Some(job.id().timestamp_ms()), heartbeat]
        });
        Ok(told.flatten().max().and_then(|millis| i64::try_from(millis).ok()))
    }

    /// Opens the store as its writer, over `session`.
    pub(super) async fn open_db(&self, session: &WriterSession, seed: u64) -> Result<Db, TakeError> {
        if self.settings.compactor_options.is_some()
            && let Some(millis) = Box::pin(self.latest_of_jobs_millis(session, seed)).await?
        {
            session.raise_clock(millis);
        }
        let mut builder = Db::builder(self.path.clone(), self.bucket.clone())
            .with_settings(Settings { garbage_collector_options: None, ..self.settings.clone() })
            .with_seed(seed)
            .with_db_cache_disabled();
        if let Some(SharedCache { cache, id }) = self.shared_cache() {
            builder = builder.with_db_cache(cache, id);
        }
        if let Some(extractor) = &self.extractor {
            builder = builder.with_segment_extractor(extractor.clone());
        }
        if let Some(operator) = &self.merge_operator {
            builder = builder.with_merge_operator(operator.clone());
        }
        if let Some(customise) = &self.customise_db {
            builder = customise(builder);
        }
        // SUBTLE: SlateDB's own options of a collector are ignored where a builder of one is set, so they move into it.
        if let Some(options) = self.settings.garbage_collector_options.clone().filter(|options| !options.is_empty()) {
            let collector = GarbageCollectorBuilder::new(self.path.clone(), self.bucket.clone());
            let collector = collector.with_options(options).with_wal_gc(session.wal_gc(self.retain_pages));
            builder = builder.with_gc_builder(collector);
        }
        let opening = builder.with_wal_writer(session.writer_init()).with_system_clock(session.clock()).build();
        // The future of an open is larger than a task's stack should carry.
        Ok(Box::pin(opening).await?)
    }

    fn shared_cache(&self) -> Option<SharedCache> {
        match &self.cache {
            Cache::Shared(shared) => Some(shared.clone()),
            Cache::Own | Cache::None => None,
        }
    }
}

impl fmt::Debug for StoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}

fn own_cache() -> Arc<dyn DbCache> {
    let part = |max_capacity| -> Option<Arc<dyn DbCache>> {
        Some(Arc::new(FoyerCache::new_with_opts(FoyerCacheOptions { max_capacity, ..FoyerCacheOptions::default() })))
    };
    Arc::new(SplitCache::new().with_block_cache(part(BLOCK_CACHE_BYTES)).with_meta_cache(part(META_CACHE_BYTES)).build())
}
