//! A committer: takes the next sequence, offers, and follows the documented rule for every answer. It is killed at any point
//! and started again from what it had made durable.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commit_log::bucket::Deadline;
use commit_log::envelope::Write;
use commit_log::identity::TransactionId;
use commit_log::log::{Attempt, BeforePut, CloseError, Closing, Commit, Offer, OfferError, Outcome, Proof};
use commit_log::slot::Sequence;
use rand::RngExt;
use rand::rngs::StdRng;

use super::plan::{log_uniform, stream};
use super::process::Running;
use super::state::{Memory, Shared};
use super::tally::Event;
use super::told::{Claim, Mark, SeenSlot, Told};
use crate::bucket::Process;

/// How many transactions one committer leaves unresolved before it does nothing but ask.
const MAX_UNRESOLVED: usize = 4;

/// Whether an offer without an answer sent anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Nothing,
    Something,
}

/// One incarnation of a committer.
pub(super) struct Committer {
    running: Running,
    number: usize,
    random: StdRng,
}

impl Committer {
    /// Starts committer `number` as `process`, with what its earlier incarnations made durable.
    pub(super) async fn start(shared: &Arc<Shared>, number: usize, process: Process) -> Committer {
        let before_put = before_put(Arc::clone(shared), number, process);
        let running = Running::start(shared, process, Some(before_put)).await;
        shared.state().logs.insert(process, running.log.clone());
        let random = stream(shared.plan.seed, 2_000_000 + u64::from(process.0));
        Committer { running, number, random }
    }

    /// Works until it is aborted.
    pub(super) async fn work(mut self) {
        loop {
            self.act().await;
            self.running.sleep(&mut self.random, 1, 400).await;
        }
    }

    fn remember<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.running.shared.state().memories[self.number])
    }

    async fn act(&mut self) {
        let unresolved = self.remember(|memory| memory.attempts.len());
        let asks = unresolved >= MAX_UNRESOLVED || (unresolved > 0 && self.random.random_bool(0.4));
        match self.random.random_range(0..10) {
            _ if asks => self.resolve_one().await,
            0 => drop(self.running.catch_up(Proof::NowAndThen).await),
            1 => drop(self.running.catch_up(Proof::Always).await),
            2 => self.running.read_again(&mut self.random).await,
            _ => self.commit_one().await,
        }
    }

    /// Offers what is not offered anywhere, or something new.
    async fn commit_one(&mut self) {
        let waiting = self.remember(|memory| {
            let mut open = memory.intents.keys().filter(|transaction| !memory.attempts.contains_key(transaction));
            open.next().copied()
        });
        let transaction = waiting.unwrap_or_else(|| self.new_intent());
        let since = self.running.shared.mark();
        let sequence = self.draw_sequence();
        if self.random.random_bool(0.2) {
            // Asleep between the look at the head and the put.
            self.running.sleep(&mut self.random, 100, 40_000).await;
        }
        let attempt = Attempt { transaction, sequence };
        self.offer(attempt).await;
        self.count_sleep(since, attempt);
    }

    /// Wants another transaction committed.
    fn new_intent(&mut self) -> TransactionId {
        let transaction = TransactionId::random(&self.running.log.bucket().environment().randomness);
        let commit = commit(transaction, &mut self.random);
        self.remember(|memory| memory.intents.insert(transaction, commit));
        transaction
    }

    /// The next sequence, nearly always; else one that is stale, or too far ahead.
    fn draw_sequence(&mut self) -> Sequence {
        let next = self.running.log.next();
        match self.random.random_range(0..20) {
            0 => next.plus(self.random.random_range(1..=2)),
            1 => next.previous().filter(|stale| *stale >= self.running.log.record().origin).unwrap_or(next),
            _ => next,
        }
    }

    /// Offers a transaction and does what the answer asks for.
    pub(super) async fn offer(&mut self, attempt: Attempt) {
        let Some(commit) = self.remember(|memory| memory.intents.get(&attempt.transaction).cloned()) else { return };
        let shared = Arc::clone(&self.running.shared);
        shared.step();
        let asked = shared.mark();
        let open_before = self.remember(|memory| memory.attempts.contains_key(&attempt.transaction));
        shared.state().offering.insert(self.running.process);
        let deadline = self.running.deadline();
        let offer = self.running.log.offer(attempt.sequence, commit, &deadline);
        let patience = match self.random.random_bool(0.08) {
            true => log_uniform(&mut self.random, Duration::from_millis(1), Duration::from_secs(2)),
            false => Duration::from_secs(24 * 3600),
        };
        let patience = Deadline::after(self.running.log.bucket().environment(), patience);
        let answer = patience.bound(offer).await;
        shared.state().offering.remove(&self.running.process);
        self.running.note_beliefs(asked);
        match answer {
            // Dropping the future withdraws nothing, so its outcome is not known.
            Err(_) => {
                shared.count(Event::Cancelled);
                self.unknown(asked, attempt);
            }
            Ok(Ok(offer)) => self.settled(asked, attempt, offer).await,
            Ok(Err(error)) => {
                let sent = self.unsettled(asked, attempt, error).await;
                // Its callback noted an attempt that was then not made.
                if sent == Sent::Nothing && !open_before {
                    self.remember(|memory| memory.attempts.remove(&attempt.transaction));
                }
            }
        }
    }

    fn count_sleep(&self, since: Mark, attempt: Attempt) {
        let mut state = self.running.shared.state();
        let page = state.chronicle.page_of(attempt.sequence);
        let retired = state.chronicle.retired().get(&page).is_some_and(|retired| retired.effect >= since.effects);
        if retired {
            state.tally.count(Event::SleptOverRetirement);
        }
    }

    fn unknown(&self, asked: Mark, attempt: Attempt) {
        self.running.shared.count(Event::Unknown);
        self.running.tell(asked, Claim::Unknown(attempt));
        // The rule: remember the pair, and offer the transaction nowhere else before its outcome is known.
        self.remember(|memory| memory.open(attempt));
    }

    /// A won transaction is done; one that was not is offered again at the next sequence, after a look at the store when the
    /// log was retired past it.
    async fn settled(&mut self, asked: Mark, attempt: Attempt, offer: Offer) {
        match offer {
            Offer::Won { .. } => {
                self.running.tell(asked, Claim::Won(attempt));
                self.decided(attempt, Outcome::Landed);
            }
            Offer::Lost { winner } => {
                self.running.shared.count(Event::Lost);
                self.running.tell(asked, Claim::Lost(attempt, SeenSlot::of(&winner)));
                self.decided(attempt, Outcome::Never);
            }
            Offer::Behind { .. } => {
                self.running.shared.count(Event::Behind);
                self.running.tell(asked, Claim::Behind(attempt));
                self.decided(attempt, Outcome::Never);
                drop(self.running.load().await);
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the library's error may grow; a new one must be looked at here")]
    async fn unsettled(&mut self, asked: Mark, attempt: Attempt, error: OfferError) -> Sent {
        let shared = Arc::clone(&self.running.shared);
        match error {
            OfferError::Unknown { .. } => {
                self.unknown(asked, attempt);
                return Sent::Something;
            }
            OfferError::Corrupt(corruption) => {
                self.running.tell_corrupt(asked, corruption);
                self.unknown(asked, attempt);
                return Sent::Something;
            }
            OfferError::LogBehind { .. } => drop(self.running.load().await),
            OfferError::OpenElsewhere { .. } => shared.count(Event::RefusedOpenElsewhere),
            OfferError::TooFarAhead { .. } => shared.count(Event::RefusedTooFarAhead),
            OfferError::NotSent { .. } | OfferError::NotRecorded(_) | OfferError::Unavailable(_) => {}
            OfferError::TooManyOpen => {}
            other => panic!("an offer was answered with {other}"),
        }
        self.running.tell(asked, Claim::NothingSent(attempt));
        Sent::Nothing
    }

    fn decided(&self, attempt: Attempt, outcome: Outcome) {
        let unknown = |told: &Told| matches!(&told.claim, Claim::Unknown(unknown) if *unknown == attempt);
        let was_unknown = self.running.shared.state().told.iter().any(unknown);
        match outcome {
            Outcome::Landed if was_unknown => self.running.shared.count(Event::UnknownLanded),
            Outcome::Never if was_unknown => self.running.shared.count(Event::UnknownNever),
            Outcome::Landed | Outcome::Never | Outcome::Open => {}
        }
        self.remember(|memory| memory.decided(attempt, outcome));
    }

    /// Asks what became of an attempt; where it is open, offers it again there, closes the sequence, or waits.
    async fn resolve_one(&mut self) {
        let open: Vec<_> = self.remember(|memory| {
            memory.attempts.iter().map(|(transaction, at)| Attempt { transaction: *transaction, sequence: *at }).collect()
        });
        let attempt = open[self.random.random_range(0..open.len())];
        let Some(Outcome::Open) = self.ask(attempt).await else { return };
        match self.random.random_range(0..4) {
            0 => {
                self.running.shared.count(Event::Resubmitted);
                self.offer(attempt).await;
            }
            1 => self.close(attempt, Closing::Filler, Event::ClosedByFiller).await,
            2 => {
                let closing = self.new_intent();
                let commit = self.remember(|memory| memory.intents[&closing].clone());
                // Its own outcome is nobody's concern here; what its callback noted is asked for later.
                self.close(attempt, Closing::Commit(commit), Event::ClosedByCommit).await;
            }
            _ => {}
        }
    }

    /// Asks what became of an attempt.
    pub(super) async fn ask(&mut self, attempt: Attempt) -> Option<Outcome> {
        let Attempt { transaction, sequence } = attempt;
        self.running.shared.step();
        let asked = self.running.shared.mark();
        match self.running.log.outcome(transaction, sequence, &self.running.deadline()).await {
            Ok(outcome) => {
                self.running.tell(asked, Claim::Outcome(attempt, outcome));
                self.decided(attempt, outcome);
                Some(outcome)
            }
            Err(error) => {
                self.running.note_error(asked, &error);
                None
            }
        }
    }

    /// Closes the sequence of an attempt.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the library's error may grow; a new one must be looked at here")]
    pub(super) async fn close(&mut self, attempt: Attempt, closing: Closing, event: Event) {
        let Attempt { transaction, sequence } = attempt;
        self.running.shared.step();
        let asked = self.running.shared.mark();
        let closed = self.running.log.close_open(transaction, sequence, closing, &self.running.deadline()).await;
        self.running.note_beliefs(asked);
        match closed {
            Ok(outcome) => {
                self.running.shared.count(event);
                self.running.tell(asked, Claim::Outcome(attempt, outcome));
                self.decided(attempt, outcome);
            }
            Err(CloseError::StillOpen { .. }) => self.running.tell(asked, Claim::StillOpen(attempt)),
            Err(CloseError::Tail(error)) => self.running.note_error(asked, &error),
            Err(CloseError::Offer(OfferError::LogBehind { .. })) => drop(self.running.load().await),
            Err(CloseError::Offer(OfferError::Corrupt(corruption))) => self.running.tell_corrupt(asked, corruption),
            Err(CloseError::Offer(_)) => {}
            Err(error) => panic!("a closing was answered with {error}"),
        }
    }

    /// The process it runs in.
    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    /// Offers something new at the next sequence. For the quiet phase.
    pub(super) async fn commit_something(&mut self) {
        let transaction = self.new_intent();
        let sequence = self.running.log.next();
        self.offer(Attempt { transaction, sequence }).await;
    }
}

/// One to three rows, by which a transaction is told from any other.
fn commit(transaction: TransactionId, random: &mut StdRng) -> Commit {
    let rows = random.random_range(1..=3);
    let row = |number: u8| Write::put(vec![b'k', number], Bytes::copy_from_slice(transaction.as_bytes()));
    Commit { validated_head: Bytes::from_static(b"head"), ..Commit::of(transaction, (0..rows).map(row).collect()) }
}

/// Makes an attempt durable before its first put, now and then slowly, now and then not at all.
fn before_put(shared: Arc<Shared>, number: usize, process: Process) -> BeforePut {
    let random = Arc::new(std::sync::Mutex::new(stream(shared.plan.seed, 3_000_000 + u64::from(process.0))));
    Arc::new(move |attempt| {
        let (shared, random) = (Arc::clone(&shared), Arc::clone(&random));
        Box::pin(async move {
            let draw = random.lock().unwrap().random_range(0..100);
            if draw < 10 {
                shared.wait(Duration::from_millis(draw * 10)).await;
            }
            if shared.state().dead.contains(&process) {
                std::future::pending::<()>().await;
            }
            if draw == 50 {
                return Err("the disk is full".into());
            }
            shared.state().memories[number].open(attempt);
            Ok(())
        })
    })
}
