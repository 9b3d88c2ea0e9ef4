//! One process of a world: its link, its clock, its randomness, and the store as it has it open.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use commit_log::adoption::FreshLog;
use commit_log::environment::{Environment, Randomness};
use commit_log::log::Attempt;
use commit_log::retire::{RetireError, RetireMode, RetireOptions};
use commit_log::store::{OpenError, Store};
use futures::future::select;
use rand::RngExt;
use slatedb::ErrorKind;

use super::record::{Incarnation, Record, Step};
use super::settings::{Draw, engine, pace};
use crate::bucket::{Process, SimulatedBucket};
use crate::clock::{ClockMode, SimulatedClock, Timeline};

/// Where the store lies.
pub(super) const STORE: &str = "store";

/// How often a process tries to open the store before the world is broken.
const OPENS: usize = 50;

/// What every part of a world is given.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) draw: Arc<Draw>,
    pub(super) bucket: SimulatedBucket,
    pub(super) timeline: Timeline,
    pub(super) record: Record,
}

impl Scene {
    pub(super) async fn pause(&self, duration: Duration) {
        self.timeline.sleep_until(self.timeline.elapsed() + duration).await;
    }

    pub(super) fn clock(&self, process: u32) -> Arc<SimulatedClock> {
        Arc::new(SimulatedClock::new(self.timeline, ClockMode::Steady, self.draw.skew(process)))
    }

    /// Opens the store as one incarnation of a process, trying again for as long as a person would.
    pub(super) async fn open(&self, who: Incarnation) -> Option<Session> {
        let randomness = Arc::new(Randomness::from_seed(self.draw.stream([who.process, who.run, 1]).random()));
        let clock = self.clock(who.process);
        let environment = Environment { clock: clock.clone(), stopwatch: clock, randomness };
        for _ in 0..OPENS {
            match self.open_once(who, environment.clone()).await {
                Ok(store) => return Some(Session { scene: self.clone(), who, store }),
                Err(OpenError::Unavailable(_) | OpenError::Read(_) | OpenError::TimedOut | OpenError::Behind) => {}
                Err(error) => {
                    self.record.broken(format!("{who:?} could not open: {error}"));
                    return None;
                }
            }
            self.record.count("failed opens");
            self.pause(Duration::from_millis(200)).await;
        }
        self.record.broken(format!("{who:?} could not open {OPENS} times"));
        None
    }

    async fn open_once(&self, who: Incarnation, environment: Environment) -> Result<Store, OpenError> {
        let record = self.record.clone();
        let before_put = move |attempt: Attempt| {
            record.offered(attempt.transaction, attempt.sequence.get());
            let done: futures::future::BoxFuture<'static, _> = Box::pin(async { Ok(()) });
            done
        };
        let fresh = FreshLog { page_size: self.draw.page_size, ..FreshLog::default() };
        Store::builder(STORE, self.bucket.link(Process(who.process)))
            .environment(environment)
            .pace(pace())
            .fresh_log(fresh)
            .settings(engine())
            .holding(self.draw.holding.clone())
            .folding(self.draw.folding(who.process))
            .fold_every(self.draw.fold_every())
            .retain_pages(NonZeroU32::MIN)
            .looks(self.draw.looks.clone())
            .poll(Duration::from_millis(500))
            .transaction_budget(Duration::from_secs(10))
            .before_put(Arc::new(before_put))
            .open()
            .await
    }
}

/// The store, as one incarnation of a process has it open.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) scene: Scene,
    pub(super) who: Incarnation,
    pub(super) store: Store,
}

impl Session {
    /// Takes a view, and notes how far it sees.
    pub(super) fn view(&self) -> commit_log::view::View {
        let view = self.store.view();
        self.scene.record.step(self.who, Step::Saw(head(&view)));
        view
    }

    /// Holds the store for a while, then gives it back.
    pub(super) async fn hold(self, duration: Duration) {
        let record = &self.scene.record;
        let holder = match self.store.hold().await {
            Ok(holder) => holder,
            Err(error) => return self.held(&error),
        };
        record.count("holds");
        let ended = async { Some(holder.ended().await) };
        let over = async {
            self.scene.pause(duration).await;
            None
        };
        let (first, _) = select(Box::pin(ended), Box::pin(over)).await.factor_first();
        if let Some(Err(error)) = first {
            return self.held(&error);
        }
        match holder.stop().await {
            Ok(()) => record.count("hand-overs"),
            Err(error) => self.held(&error),
        }
    }

    /// Retires what may go, keeping as little as may be kept.
    pub(super) async fn retire(self) {
        let record = &self.scene.record;
        let options = RetireOptions { retain_pages: NonZeroU32::MIN, ..RetireOptions::default() };
        match self.store.retire(&options, RetireMode::Retire).await {
            Ok(retired) if retired.pages.is_empty() => {}
            Ok(_) => record.count("retirements"),
            Err(RetireError::Unavailable(_) | RetireError::Manifest(_) | RetireError::TimedOut(_)) => {
                record.count("failed retirements");
            }
            Err(other) => record.broken(format!("{:?} cannot retire: {other}", self.who)),
        }
    }

    /// Notes why it holds no longer, and whether that may be.
    fn held(&self, error: &commit_log::holder::HoldError) {
        use commit_log::holder::HoldError;
        use commit_log::take::TakeError;
        let record = &self.scene.record;
        match error {
            HoldError::Fenced | HoldError::Take(TakeError::Fenced) => record.count("fenced"),
            HoldError::Take(TakeError::Unavailable(_) | TakeError::TimedOut | TakeError::OpenRaced) => {
                record.count("failed takes")
            }
            HoldError::TimedOut { .. } | HoldError::L0Full { .. } => record.count("failed holds"),
            HoldError::Tail(commit_log::log::TailError::Unavailable(_)) => record.count("failed holds"),
            // SlateDB's own parts gave up, as over a broken body; whoever holds takes the store again. A write that the plug refused
            // would be of another kind.
            HoldError::Closed(source) if source.kind() != ErrorKind::Internal => {
                record.count("closed holds");
            }
            HoldError::NotFlushed(source) | HoldError::NotApplied { source, .. } if source.kind() == ErrorKind::Unavailable => {
                record.count("failed holds");
            }
            other => record.broken(format!("{:?} holds no longer: {other}: {:?}", self.who, std::error::Error::source(other))),
        }
    }
}

/// A view's head, zero for none.
pub(super) fn head(view: &commit_log::view::View) -> u64 {
    view.head().map_or(0, commit_log::slot::Sequence::get)
}
