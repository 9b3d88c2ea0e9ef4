//! An offer: one try to place an envelope at a sequence, driven until it is settled or its deadline passes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::bucket::{Deadline, DeadlinePassed, Doing, Found, ObjectName, Put};
use crate::envelope::{Envelope, Refused, Slot, SlotKind, Turn, Write, stamp_after};
use crate::environment::Moment;
use crate::error::{Corruption, Unavailable};
use crate::identity::TransactionId;
use crate::ledger::{Ledger, LedgerEntry};
use crate::slot::Sequence;

use super::settle::{Question, SlotSeen, Verdict, judge};
use super::tail::{Proof, RoundEnd, TailError};
use super::unresolved::{Admission, Sent};
use super::win_check::Free;
use super::{Attempt, SlotLog, chain};

/// The slots that are read at once after a put found its name taken: the winner and the next eight.
const READS_AFTER_A_LOSS: u32 = 9;

/// What a caller wants committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction: the same at every offer of it.
    pub transaction: TransactionId,
    /// The head it was validated against, in the embedder's own form.
    pub validated_head: Bytes,
    /// What it changes, in the embedder's own form.
    pub changes_made: Bytes,
    /// Its rows: at least one, at most one a key, in ascending order of keys.
    pub writes: Vec<Write>,
}

impl Commit {
    /// A commit of rows alone.
    pub fn of(transaction: TransactionId, writes: Vec<Write>) -> Commit {
        Commit { transaction, validated_head: Bytes::new(), changes_made: Bytes::new(), writes }
    }
}

/// How an offer ended.
#[derive(Clone, Debug)]
pub enum Offer {
    /// The transaction is committed, at the sequence it was offered at.
    Won {
        /// The slot that carries it, which another offer of the transaction may have placed. `None` when its page has been
        /// retired: reload from the store to see it.
        slot: Option<Arc<Slot>>,
    },
    /// Another slot has the sequence. Nothing of this transaction is committed there, nor will be.
    Lost {
        /// That slot. What followed it is known to the log by now.
        winner: Arc<Slot>,
    },
    /// The log was retired past the sequence. Nothing of this transaction is committed there, nor will be.
    Behind {
        /// What is remembered of the slot that had the sequence. `None` where no slot ever had it, below the origin.
        winner: Option<LedgerEntry>,
    },
}

/// An offer that ended without an answer. Each says what the caller does next.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Nothing was sent: the commit breaks a rule.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing was sent: the sequence lies further ahead than the one after the last slot.
    #[error("expected a sequence up to {expected}, found {found}")]
    TooFarAhead {
        /// The sequence after the last slot.
        expected: Sequence,
        /// The sequence that was asked for.
        found: Sequence,
    },
    /// Nothing was sent: the log was retired past what this process knows. Reload from the store.
    #[error("the log was retired past slot {}", after.map_or(0, Sequence::get))]
    LogBehind {
        /// The last slot that was known.
        after: Option<Sequence>,
    },
    /// Nothing was sent: the transaction's outcome at another sequence is not known, or an offer of it there is still being made.
    /// Ask for that first; where it is known, wait until that offer has ended.
    #[error("the outcome of transaction {transaction} at slot {at} is not known yet")]
    OpenElsewhere {
        /// The transaction.
        transaction: TransactionId,
        /// Where it is open.
        at: Sequence,
    },
    /// Nothing was sent: too many transactions of this process have an outcome that is not known.
    #[error("too many transactions have an outcome that is not known yet")]
    TooManyOpen,
    /// Nothing was sent: the caller's own record of the attempt failed.
    #[error("the attempt could not be recorded")]
    NotRecorded(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// Nothing was sent before the deadline passed.
    #[error("nothing was sent before the deadline passed: waited for the {waited_for}")]
    NotSent {
        /// What was being waited for.
        waited_for: Doing,
    },
    /// Something was sent, and its outcome is not known: it may be committed, or come to be. Never "failed". Ask for the
    /// outcome with this pair; do not offer the transaction anywhere else before it is known.
    #[error("the outcome of transaction {transaction} at slot {sequence} is not known: waited for the {waited_for}")]
    Unknown {
        /// The transaction.
        transaction: TransactionId,
        /// The sequence it was offered at.
        sequence: Sequence,
        /// What was being waited for.
        waited_for: Doing,
    },
    /// What is in the bucket is not what the log put there. If anything was sent, its outcome is not known.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The tail could not be read to find out whether the sequence is the next. Nothing was sent.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl SlotLog {
    /// Offers a commit as the slot at `sequence`.
    ///
    /// It wins there or loses there; it is never moved. A sequence at or below the known head is judged without any put: it
    /// may be the caller's own, whose outcome it did not hear. A transaction that is being offered already is waited for, and
    /// one whose offer ended unknown is offered with its first bytes again.
    ///
    /// Dropping the future withdraws nothing: the offer runs in a task of its own until its deadline.
    ///
    /// # Errors
    ///
    /// See [`OfferError`]; *unknown* whenever anything was sent and no verdict was reached.
    pub async fn offer(&self, sequence: Sequence, commit: Commit, deadline: &Deadline) -> Result<Offer, OfferError> {
        self.offer_as(SlotKind::Commit, sequence, commit, deadline).await
    }

    /// Offers the log's first slot, which says that the store is on the log: `stamp` is what the embedder has to say of that.
    ///
    /// # Errors
    ///
    /// As [`SlotLog::offer`].
    pub async fn offer_adoption(&self, stamp: Commit, deadline: &Deadline) -> Result<Offer, OfferError> {
        self.offer_as(SlotKind::Adoption, self.record().origin, stamp, deadline).await
    }

    pub(super) async fn offer_as(
        &self,
        kind: SlotKind,
        sequence: Sequence,
        commit: Commit,
        deadline: &Deadline,
    ) -> Result<Offer, OfferError> {
        let transaction = commit.transaction;
        let admission = match self.inner.unresolved.find(transaction, sequence) {
            Some(admission) => admission,
            None => {
                self.reach(sequence, deadline).await?;
                self.inner.unresolved.admit(transaction, Arc::new(self.seal(kind, sequence, commit)?))
            }
        };
        match admission {
            // The one that runs may have a later deadline than this caller, who then does not know.
            Admission::Join(answer) => match deadline.bound(answer).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(DeadlinePassed) => Err(self.unknown(transaction, sequence)),
            },
            Admission::OpenElsewhere(at) => Err(OfferError::OpenElsewhere { transaction, at }),
            Admission::Full => Err(OfferError::TooManyOpen),
            Admission::Drive(slot, sent, sender, answer) => {
                tokio::spawn(Drive::new(self, slot, sent, transaction, deadline).run(sender));
                // SUBTLE: not bounded here. The task answers by the same deadline, and it alone knows whether anything was
                // sent. It fails to answer only when it is dropped half way, and then nobody knows.
                answer.await.unwrap_or_else(|_| Err(self.unknown(transaction, sequence)))
            }
        }
    }

    /// Makes sure that `sequence` is at most the one after the head, with one look at the tail.
    async fn reach(&self, sequence: Sequence, deadline: &Deadline) -> Result<(), OfferError> {
        if sequence <= self.next() {
            return Ok(());
        }
        // What is refused is refused for the end of the log, not for a name that was forgotten.
        match self.catch_up(Proof::Always, deadline).await {
            Ok(()) => {}
            Err(TailError::Behind { after }) => return Err(OfferError::LogBehind { after }),
            Err(TailError::Corrupt(corruption)) => return Err(corruption.into()),
            Err(TailError::Unavailable(failure)) => return Err(failure.into()),
        }
        let expected = self.next();
        if sequence <= expected { Ok(()) } else { Err(OfferError::TooFarAhead { expected, found: sequence }) }
    }

    /// Makes the envelope that is offered at `sequence`. What lies at or below the head is only judged: its parent is not
    /// needed, so the head's is named.
    fn seal(&self, kind: SlotKind, sequence: Sequence, commit: Commit) -> Result<Slot, Refused> {
        let anchor = self.inner.known.anchor();
        let environment = self.bucket().environment();
        let Commit { transaction, validated_head, changes_made, writes } = commit;
        let envelope = Envelope {
            log: anchor.log,
            sequence,
            nonce: environment.randomness.bytes(),
            parent: anchor.parent(),
            kind,
            validated_head,
            changes_made,
            members: vec![transaction],
            stamp: stamp_after(anchor.head.map(|head| head.stamp), environment.now_millis()),
            turn: Turn::default(),
            writes,
        };
        Slot::seal(envelope, &self.inner.rules)
    }

    fn unknown(&self, transaction: TransactionId, sequence: Sequence) -> OfferError {
        let waited_for = Doing::Put(ObjectName::Slot(self.record().log, sequence));
        OfferError::Unknown { transaction, sequence, waited_for }
    }
}

/// An offer that is being made.
struct Drive {
    log: SlotLog,
    slot: Arc<Slot>,
    transaction: TransactionId,
    deadline: Deadline,
    progress: Mutex<Progress>,
    /// Whether a verdict was reached.
    settled: AtomicBool,
}

/// How far an offer has come.
#[derive(Clone, Copy)]
struct Progress {
    sent: Sent,
    waiting_for: Doing,
}

/// What one try came to.
enum Step {
    Settled(Offer),
    /// Nothing has the sequence: put the same bytes again.
    Again,
}

impl Drive {
    fn new(log: &SlotLog, slot: Arc<Slot>, sent: Sent, transaction: TransactionId, deadline: &Deadline) -> Drive {
        let waiting_for = Doing::Put(ObjectName::Slot(log.record().log, slot.sequence()));
        let progress = Mutex::new(Progress { sent, waiting_for });
        Drive { log: log.clone(), slot, transaction, deadline: deadline.clone(), progress, settled: AtomicBool::new(false) }
    }

    async fn run(self, answer: oneshot::Sender<Result<Offer, OfferError>>) {
        let outcome = self.log_while_waiting(Box::pin(self.deadline.bound(self.settle()))).await;
        let outcome = outcome.unwrap_or_else(|DeadlinePassed| Err(self.out_of_time()));
        match &outcome {
            Ok(Offer::Won { .. } | Offer::Lost { .. } | Offer::Behind { .. }) => self.settled.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        drop(self);
        // Nobody may be waiting any more; the offer ran to its end all the same.
        let _ = answer.send(outcome);
    }

    async fn settle(&self) -> Result<Offer, OfferError> {
        let sequence = self.slot.sequence();
        if sequence < self.log.next() {
            return self.judge_below_the_head().await;
        }
        if let (SlotKind::Commit, Some(before_put)) = (self.slot.envelope().kind, &self.log.inner.options.before_put) {
            let attempt = Attempt { transaction: self.transaction, sequence };
            before_put(attempt).await.map_err(|error| self.not_recorded(error))?;
        }
        let mut backoff = self.log.bucket().pace().backoff(self.log.bucket().environment());
        // Bounded by the deadline, which drops this future.
        loop {
            self.waits_for(Doing::Put(self.name()));
            self.note_sent();
            let sent = self.log.moment();
            let step = match self.log.bucket().create(self.name(), self.slot.bytes().clone()).await {
                Put::Created => self.judge_created(sent).await?,
                Put::Exists => self.judge_taken().await?,
                Put::Doubtful(_) => Step::Again,
            };
            match step {
                Step::Settled(offer) => return Ok(offer),
                Step::Again => backoff.wait().await,
            }
        }
    }

    /// The put that was about to be sent at `sent` was answered *created*: the ledger says whether the name was forgotten before,
    /// unless there was no time for that.
    async fn judge_created(&self, sent: Moment) -> Result<Step, OfferError> {
        let step = if self.was_quick() {
            self.decide(&SlotSeen::Created, None, &[])?
        } else {
            self.conclude(SlotSeen::Created, &[]).await?
        };
        if let Step::Settled(Offer::Won { slot: Some(slot) }) = &step {
            self.log.inner.known.note_free(Free { sequence: slot.sequence().next(), at: sent });
        }
        Ok(step)
    }

    /// Whether the answer of the put, used now, is a win as it stands. A filler's never is: what it proves is read.
    fn was_quick(&self) -> bool {
        let free = self.log.inner.known.free_at(self.slot.sequence());
        self.slot.envelope().kind == SlotKind::Commit && self.log.inner.win_check.is_quick(free, self.log.moment())
    }

    /// The name is taken: by whom, and what followed, in one round of reads.
    async fn judge_taken(&self) -> Result<Step, OfferError> {
        self.waits_for(Doing::Read(self.name()));
        let round = self.log.read_round(self.slot.sequence(), READS_AFTER_A_LOSS, &self.deadline).await;
        let round = round.map_err(|_| self.out_of_time())?;
        match (round.slots.split_first(), round.end) {
            (Some((first, following)), _) => self.conclude(SlotSeen::Present(first.clone()), following).await,
            (None, RoundEnd::Damaged(corruption)) => self.conclude_damaged(corruption).await,
            (None, RoundEnd::Full | RoundEnd::Absent | RoundEnd::Gap { .. }) => self.conclude(SlotSeen::Absent, &[]).await,
        }
    }

    /// The sequence is at or below the known head: it is judged without any put, which would only plant a zombie.
    async fn judge_below_the_head(&self) -> Result<Offer, OfferError> {
        self.waits_for(Doing::Read(self.name()));
        let sequence = self.slot.sequence();
        let found = self.log.read_slot(sequence, &self.deadline).await.map_err(|_| self.out_of_time())?;
        let step = match found {
            Found::Present(slot) => self.conclude(SlotSeen::Present(Arc::new(slot)), &[]).await?,
            Found::Absent => self.conclude(SlotSeen::Absent, &[]).await?,
            Found::Damaged(corruption) => self.conclude_damaged(corruption).await?,
        };
        match step {
            Step::Settled(offer) => Ok(offer),
            Step::Again => Err(Corruption::Hole { missing: sequence, below: self.log.next() }.into()),
        }
    }

    /// Judges what was seen, and takes note of what may be believed. `following` are the slots that were read after the one
    /// that was seen; the ledger read here is the one that lets them be believed, too.
    async fn conclude(&self, seen: SlotSeen, following: &[Arc<Slot>]) -> Result<Step, OfferError> {
        let page = self.log.page_of(self.slot.sequence());
        self.waits_for(Doing::Read(ObjectName::Ledger(self.log.record().log, page)));
        let ledger = match self.log.read_ledger(page, &self.deadline).await {
            Ok(ledger) => ledger,
            Err(TailError::Corrupt(corruption)) => return Err(corruption.into()),
            // Doubt, not an answer.
            Err(TailError::Unavailable(_) | TailError::Behind { .. }) => return Err(self.out_of_time()),
        };
        self.decide(&seen, ledger.as_ref(), following)
    }

    /// Judges what was seen by what the ledger says, which is absent or known to be.
    fn decide(&self, seen: &SlotSeen, ledger: Option<&Ledger>, following: &[Arc<Slot>]) -> Result<Step, OfferError> {
        let sequence = self.slot.sequence();
        let retired = ledger.is_some();
        let question = Question { sequence, transaction: self.transaction, own_id: Some(self.slot.own_id()) };
        let offer = match judge(&question, seen, ledger) {
            Verdict::Open => return Ok(Step::Again),
            Verdict::Behind => Offer::Behind { winner: ledger.and_then(|ledger| ledger.entry(sequence)).cloned() },
            Verdict::Won | Verdict::WonByAnotherOffer if retired => Offer::Won { slot: None },
            Verdict::Won => Offer::Won { slot: Some(self.slot.clone()) },
            Verdict::WonByAnotherOffer => Offer::Won { slot: present(seen) },
            Verdict::Lost { winner } => Offer::Lost { winner },
        };
        if !retired {
            self.take_note(&offer, following)?;
        }
        Ok(Step::Settled(offer))
    }

    /// Something unreadable has the name: damage, unless its page is retired, where anything may lie.
    async fn conclude_damaged(&self, corruption: Corruption) -> Result<Step, OfferError> {
        match self.conclude(SlotSeen::Absent, &[]).await? {
            Step::Settled(offer) => Ok(Step::Settled(offer)),
            Step::Again => Err(corruption.into()),
        }
    }

    /// Moves the head over the slot that has the sequence, and what followed it.
    fn take_note(&self, offer: &Offer, following: &[Arc<Slot>]) -> Result<(), OfferError> {
        let first = match offer {
            Offer::Won { slot: Some(slot) } => slot,
            Offer::Lost { winner } => winner,
            Offer::Won { slot: None } | Offer::Behind { .. } => return Ok(()),
        };
        let anchor = self.log.inner.known.anchor();
        if first.sequence() != anchor.next() {
            return Ok(());
        }
        chain::check(&anchor, std::slice::from_ref(first))?;
        self.log.advance(std::slice::from_ref(first));
        // What is wrong with a later slot is no news of this offer: whoever reads on is told.
        if chain::check(&anchor.after(first), following).is_ok() {
            self.log.advance(following);
        }
        Ok(())
    }

    fn name(&self) -> ObjectName {
        ObjectName::Slot(self.log.record().log, self.slot.sequence())
    }

    fn progress(&self) -> Progress {
        // Two plain fields: nothing is ever half written.
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_sent(&self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).sent = Sent::Something;
    }

    fn waits_for(&self, doing: Doing) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).waiting_for = doing;
    }

    /// The caller's record failed. Whether that withdraws the offer depends on whether an earlier try of it sent anything.
    fn not_recorded(&self, error: Box<dyn std::error::Error + Send + Sync>) -> OfferError {
        match self.progress().sent {
            Sent::Nothing => OfferError::NotRecorded(Arc::from(error)),
            Sent::Something => self.out_of_time(),
        }
    }

    fn out_of_time(&self) -> OfferError {
        let Progress { sent, waiting_for } = self.progress();
        match sent {
            Sent::Nothing => OfferError::NotSent { waited_for: waiting_for },
            Sent::Something => {
                OfferError::Unknown { transaction: self.transaction, sequence: self.slot.sequence(), waited_for: waiting_for }
            }
        }
    }

    /// Says in the log, every so often, what a long offer waits for.
    async fn log_while_waiting<T>(&self, offer: impl Future<Output = T>) -> T {
        let bucket = self.log.bucket();
        let mut offer = std::pin::pin!(offer);
        // Bounded by the offer, which has a deadline.
        loop {
            match Deadline::after(bucket.environment(), bucket.pace().log_every).bound(offer.as_mut()).await {
                Ok(outcome) => return outcome,
                Err(DeadlinePassed) => {
                    let waiting_for = self.progress().waiting_for;
                    tracing::warn!(transaction = %self.transaction, "a commit waits for the {waiting_for}");
                }
            }
        }
    }
}

impl Drop for Drive {
    /// However the offer ends, also half way with its runtime or in a panic of the caller's callback: nobody drives it from now
    /// on, so whoever hands the transaction in again must not wait for it.
    fn drop(&mut self) {
        let unresolved = &self.log.inner.unresolved;
        // A filler means nothing wherever it lands, and nobody knows its transaction to ask for it.
        let forgettable = self.slot.envelope().kind == SlotKind::Filler;
        if forgettable || self.settled.load(Ordering::Relaxed) || self.progress().sent == Sent::Nothing {
            unresolved.resolve(self.transaction, self.slot.sequence());
        } else {
            unresolved.stays_open(self.transaction, self.slot.sequence());
        }
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offer of {} at {:?}", self.transaction, self.slot)
    }
}

fn present(seen: &SlotSeen) -> Option<Arc<Slot>> {
    match seen {
        SlotSeen::Present(slot) => Some(slot.clone()),
        SlotSeen::Created | SlotSeen::Absent => None,
    }
}
