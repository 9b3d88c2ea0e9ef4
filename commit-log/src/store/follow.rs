//! The task that keeps a store's view fresh while nobody asks: polls of the log, looks at the store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{Notify, watch};

use crate::bucket::Deadline;
use crate::log::Proof;
use crate::slot::Sequence;

use super::current::{Current, StoreError};

/// How often the log is asked for more while somebody waits: about the round trip of a near bucket.
const POLL_WHILE_WAITED_FOR: Duration = Duration::from_millis(20);

/// The task, as its store has it. It ends when it is stopped, or with the last handle of its store.
pub(super) struct Follower {
    stop: watch::Sender<bool>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    waiters: AtomicUsize,
    came: Notify,
    moved: Notify,
}

/// One who waits, counted until dropped.
struct Waiter<'a>(&'a Waiting);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Follower {
    pub(super) fn start(current: &Arc<Current>, poll: Duration, look: Duration) -> Follower {
        let (stop, stopped) = watch::channel(false);
        let waiting = Arc::<Waiting>::default();
        tokio::spawn(follow(Arc::downgrade(current), waiting.clone(), stopped, poll, look));
        Follower { stop, waiting }
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
        self.waiting.moved.notify_waiters();
    }

    /// Waits until the view shows `sequence`.
    pub(super) async fn wait_until(
        &self,
        current: &Current,
        sequence: Sequence,
        deadline: &Deadline,
    ) -> Result<(), StoreError> {
        self.waiting.waiters.fetch_add(1, Ordering::SeqCst);
        let _waiter = Waiter(&self.waiting);
        self.waiting.came.notify_one();
        let mut head = current.log().subscribe();
        // Bounded by the deadline.
        loop {
            let moved = Box::pin(self.waiting.moved.notified());
            current.install()?;
            if current.shows(sequence) {
                return Ok(());
            }
            if *self.stop.borrow() {
                return Err(StoreError::Closed);
            }
            deadline.bound(select(moved, Box::pin(head.changed()))).await?;
        }
    }
}

async fn follow(
    current: Weak<Current>,
    waiting: Arc<Waiting>,
    mut stopped: watch::Receiver<bool>,
    poll: Duration,
    look: Duration,
) {
    let mut look_due: Option<Deadline> = None;
    // Bounded by the stop, and by the last handle.
    loop {
        let Some(store) = current.upgrade() else { return };
        let environment = store.log().bucket().environment().clone();
        let looks_at = look_due.get_or_insert_with(|| Deadline::after(&environment, look)).clone();
        drop(store);
        let interval = if waiting.waiters.load(Ordering::SeqCst) > 0 { POLL_WHILE_WAITED_FOR.min(poll) } else { poll };
        let pause = select(environment.clock.sleep(interval), Box::pin(waiting.came.notified()));
        let ended = Box::pin(stopped.wait_for(|stopped| *stopped));
        if let Either::Left(_) = select(ended, pause).await {
            return;
        }
        let Some(store) = current.upgrade() else { return };
        let deadline = store.log().bucket().deadline();
        let mut step = store.catch_up(Proof::NowAndThen, &deadline).await;
        if step.is_ok() && looks_at.has_passed() {
            step = store.look_now(&deadline).await;
            // One that failed is due again at the next poll: three of them must fit the lifetime of superseded files.
            if step.is_ok() {
                look_due = None;
            }
        }
        match step {
            Ok(()) => waiting.moved.notify_waiters(),
            // Whoever asks for the latest view is told; the next poll tries again.
            Err(error) => tracing::warn!("the view stays as it is: {error}"),
        }
    }
}
