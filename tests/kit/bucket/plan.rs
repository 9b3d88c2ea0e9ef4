//! What will become of a request, drawn once when it is accepted: when each copy takes effect, when and how the
//! caller is answered. Pure but for the random stream it is given.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::faults::{Fault, Faults, Latency, Rates};
use super::request::{Operation, OperationClass, Page};

/// The most copies of one request that a client sends.
pub(crate) const COPIES_MAX: usize = 3;

/// How the caller's wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With what the last copy did.
    Answered,
    /// With an error that says nothing.
    Failed,
    /// Not, or with the client's own time-out.
    Hangs,
}

/// What is done to the answer's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mangling {
    None,
    BreakBody,
    TruncateBody,
    FlipByte,
    ShufflePage,
}

/// What takes effect at the instant of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    Real,
    /// 409 on a create, if the name is absent; else the request's real effect.
    Conflict,
    /// Nothing, answered as done.
    Pretended,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// When each copy takes effect, after it is sent; empty when nothing reaches the server.
    pub(crate) effects: Vec<Duration>,
    /// When the caller is answered, after the request is sent.
    pub(crate) answer: Duration,
    pub(crate) ending: Ending,
    pub(crate) landing: Landing,
    pub(crate) mangling: Mangling,
    /// A number for whatever the mangling has to choose.
    pub(crate) chooser: u64,
    pub(crate) page_size: usize,
    /// The fault that this plan stages, counted when the caller is answered.
    pub(crate) fault: Option<Fault>,
    /// Whether the effect comes after the caller stopped waiting.
    pub(crate) late: Lateness,
    pub(crate) pace: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lateness {
    InTime,
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Usual,
    Slow,
}

impl Plan {
    /// A request that is served: only the latency and the page size are drawn.
    pub(crate) fn served(random: &mut StdRng, faults: &Faults) -> Self {
        let (whole, pace) = latency(random, &faults.latency);
        let effect = whole.mul_f64(random.random::<f64>());
        Self {
            effects: vec![effect],
            answer: whole,
            ending: Ending::Answered,
            landing: Landing::Real,
            mangling: Mangling::None,
            chooser: random.random(),
            page_size: random.random_range(faults.page_size.clone()),
            fault: None,
            late: Lateness::InTime,
            pace,
        }
    }

    /// Exposes a served request to the faults of its link.
    pub(crate) fn expose(&mut self, random: &mut StdRng, faults: &Faults, operation: Operation) {
        let rates = faults.rates(operation.class());
        if !self.befall(random, faults, &rates, operation) {
            self.mangle(random, faults, operation);
        }
    }

    /// Draws one of the class's faults; says whether there was one.
    fn befall(&mut self, random: &mut StdRng, faults: &Faults, rates: &Rates, operation: Operation) -> bool {
        let Rates { dropped, dropped_hanging, answer_lost, answer_lost_hanging, late, resent } = *rates;
        let mut left: f64 = random.random();
        let mut hit = |chance: f64| {
            left -= chance;
            left < 0.0
        };
        if hit(dropped) {
            self.drop_before_effect(Ending::Failed);
        } else if hit(dropped_hanging) {
            self.drop_before_effect(Ending::Hangs);
        } else if hit(answer_lost) {
            self.lose_answer(Ending::Failed);
        } else if hit(answer_lost_hanging) {
            self.lose_answer(Ending::Hangs);
        } else if hit(late) {
            let ending = if random.random_bool(0.5) { Ending::Failed } else { Ending::Hangs };
            if operation.changes() {
                let by = log_uniform(random, Duration::from_secs(1), faults.late_by);
                self.land_late(by, ending);
            } else {
                self.drop_before_effect(ending);
            }
        } else if hit(resent) {
            let copies = random.random_range(2..=COPIES_MAX);
            self.resend(random, &faults.latency, copies);
        } else {
            return false;
        }
        true
    }

    fn mangle(&mut self, random: &mut StdRng, faults: &Faults, operation: Operation) {
        let mut draw = |chance: f64| chance > 0.0 && random.random_bool(chance);
        match operation {
            Operation::Create if draw(faults.spurious_exists) => self.landing = Landing::Conflict,
            Operation::Delete if draw(faults.false_deletes) => self.landing = Landing::Pretended,
            Operation::List if draw(faults.shuffled_pages) => self.mangling = Mangling::ShufflePage,
            Operation::Get if draw(faults.broken_bodies) => self.mangling = Mangling::BreakBody,
            Operation::Get if draw(faults.truncated_bodies) => self.mangling = Mangling::TruncateBody,
            Operation::Get if draw(faults.flipped_bytes) => self.mangling = Mangling::FlipByte,
            Operation::Create | Operation::Overwrite | Operation::Update | Operation::Get | Operation::Head => {}
            Operation::List | Operation::Delete | Operation::Copy => {}
            Operation::UploadStart | Operation::UploadPart => {}
            Operation::UploadComplete | Operation::UploadAbort => {}
        }
    }

    pub(crate) fn drop_before_effect(&mut self, ending: Ending) {
        self.effects.clear();
        self.ending = ending;
        self.fault = Some(match ending {
            Ending::Hangs => Fault::DroppedHanging,
            Ending::Failed | Ending::Answered => Fault::Dropped,
        });
    }

    pub(crate) fn lose_answer(&mut self, ending: Ending) {
        self.ending = ending;
        self.fault = Some(match ending {
            Ending::Hangs => Fault::AnswerLostHanging,
            Ending::Failed | Ending::Answered => Fault::AnswerLost,
        });
    }

    /// The caller is done with it at the usual time; it lands that much after.
    pub(crate) fn land_late(&mut self, by: Duration, ending: Ending) {
        self.effects = vec![self.answer + by];
        self.ending = ending;
        self.late = Lateness::Late;
    }

    /// Copies overtake each other freely; the caller hears what the last one sent met.
    pub(crate) fn resend(&mut self, random: &mut StdRng, usual: &Latency, copies: usize) {
        let mut sent = Duration::ZERO;
        for _ in 1..copies {
            sent += self.answer;
            let (whole, _) = latency(random, usual);
            self.effects.push(sent + whole.mul_f64(random.random::<f64>()));
            self.answer = sent + whole;
        }
        // The first copy was slow, else there had been no second: it may land at any time up to the answer.
        self.effects[0] = self.answer.mul_f64(random.random::<f64>());
        self.answer = self.answer.max(self.effects[copies - 1]);
    }

    /// As `resend`, with nothing drawn: each copy takes effect after the one before it.
    pub(crate) fn resend_in_order(&mut self, copies: usize) {
        assert!((2..=COPIES_MAX).contains(&copies), "a client sends two or three copies");
        let copies = u32::try_from(copies).expect("at most three");
        self.effects = (0..copies).map(|copy| self.answer * copy + self.answer / 2).collect();
        self.answer *= copies;
    }

    pub(crate) fn fail_in_burst(&mut self) {
        self.drop_before_effect(Ending::Failed);
        self.fault = Some(Fault::BurstError);
    }
}

fn latency(random: &mut StdRng, latency: &Latency) -> (Duration, Pace) {
    let Latency { usual, tail, tail_up_to } = latency;
    if *tail > 0.0 && random.random_bool(*tail) {
        return (log_uniform(random, *usual.end(), *tail_up_to), Pace::Slow);
    }
    let micros = random.random_range(micros(*usual.start())..=micros(*usual.end()));
    (Duration::from_micros(micros), Pace::Usual)
}

/// As likely between 1 s and 2 s as between 1 h and 2 h. Integers only, so the same everywhere.
fn log_uniform(random: &mut StdRng, from: Duration, up_to: Duration) -> Duration {
    let from = micros(from).max(1);
    let up_to = micros(up_to).max(from);
    let doublings = (up_to / from).ilog2();
    let base = from << random.random_range(0..=doublings);
    Duration::from_micros(random.random_range(base..=base.saturating_mul(2)).min(up_to))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("less than 584,000 years")
}

/// Puts the entries of a page in an order that `chooser` decides.
pub(crate) fn shuffle(page: &mut Page, chooser: u64) {
    let mut random = StdRng::seed_from_u64(chooser);
    page.objects.shuffle(&mut random);
    page.folders.shuffle(&mut random);
}

/// The class's name for a request that was answered with an error and had no effect.
pub(crate) fn is_read(operation: Operation) -> bool {
    match operation.class() {
        OperationClass::Get | OperationClass::List => true,
        OperationClass::Put | OperationClass::Delete => false,
    }
}
