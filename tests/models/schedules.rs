//! Seeded random schedules, for bounds too large to exhaust. The protocol's hard cases all have somebody who
//! sleeps while the others go on, so now and then a schedule puts one to sleep.

use crate::explore::{Model, line};
use crate::violation::Violation;

/// Schedules a pair runs unless `MODEL_SCHEDULES` says otherwise: a fraction of a second each way.
pub(crate) const SCHEDULES: u64 = 20_000;

/// Steps a schedule takes at most. The deepest trace known of a naive version has 19 steps without any reduction;
/// four times that leaves room for the detours of chance.
const LONGEST: usize = 80;

/// One step in so many puts somebody to sleep: often enough for two or three sleeps a schedule.
const SLEEP_ONE_IN: usize = 8;

/// Steps a sleep lasts at most: enough for others to fill, cover and retire a page.
const LONGEST_SLEEP: usize = 16;

/// The seeds to run.
#[derive(Clone, Copy)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Seeds {
    /// Each name has seeds of its own; the environment says how many, and `MODEL_SEED` replays one.
    pub(crate) fn of(name: &str) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let own = name.bytes().fold(7_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_003);
        match number("MODEL_SEED") {
            Some(seed) => Self { first: seed, count: 1 },
            None => Self { first: own * 1_000_000, count: number("MODEL_SCHEDULES").unwrap_or(SCHEDULES) },
        }
    }
}

/// How the schedules of one model ended: all of them, or the first that was caught.
pub(crate) enum Ran {
    Held { schedules: u64 },
    Caught { after: u64, seed: u64, violation: Violation, trace: Vec<String> },
}

/// SplitMix64: any seed will do, and a seed fixes everything.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// Run one schedule a seed, until one is caught.
pub(crate) fn run<M: Model>(model: &M, seeds: Seeds) -> Ran {
    for after in 0..seeds.count {
        let seed = seeds.first + after;
        if let Some(violation) = schedule(model, seed, |_, _| ()) {
            return Ran::Caught { after, seed, violation, trace: replay(model, seed, violation) };
        }
    }
    Ran::Held { schedules: seeds.count }
}

/// The same seed again, now with its steps told: it must end the same way.
fn replay<M: Model>(model: &M, seed: u64, violation: Violation) -> Vec<String> {
    let mut trace = Vec::new();
    let again = schedule(model, seed, |step, state| {
        trace.push(line(&step.to_string(), &state.map_or(String::new(), |state| model.show(state))));
    });
    assert_eq!(again, Some(violation), "seed {seed} must replay exactly");
    trace
}

fn schedule<M: Model>(model: &M, seed: u64, mut watch: impl FnMut(&M::Step, Option<&M::State>)) -> Option<Violation> {
    let mut chance = Chance(seed);
    let mut state = model.initial();
    let mut steps = Vec::new();
    let mut asleep = Asleep { actor: usize::MAX, left: 0 };
    for _ in 0..LONGEST {
        steps.clear();
        model.steps(&state, &mut steps);
        let awake = |step: &M::Step| asleep.left == 0 || model.actor(step) != asleep.actor;
        let choices = steps.iter().filter(|(step, _)| awake(step)).count();
        let (step, next) = if choices == 0 {
            if steps.is_empty() {
                return None;
            }
            &steps[chance.below(steps.len())]
        } else {
            let choice = chance.below(choices);
            steps.iter().filter(|(step, _)| awake(step)).nth(choice).expect("as many as were counted")
        };
        asleep.left = asleep.left.saturating_sub(1);
        if chance.below(SLEEP_ONE_IN) == 0 {
            asleep = Asleep { actor: model.actor(step), left: chance.below(LONGEST_SLEEP) };
        }
        watch(step, next.as_ref().ok());
        match next {
            Err(violation) => return Some(*violation),
            Ok(next) => state = *next,
        }
        if let Some(violation) = model.judge(&state) {
            return Some(violation);
        }
    }
    None
}

/// Who sleeps, and for how many more steps.
struct Asleep {
    actor: usize,
    left: usize,
}
