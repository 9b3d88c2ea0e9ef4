//! Seeded random schedules, for bounds too large to exhaust.

use crate::explore::{Model, line};
use crate::violation::Violation;

/// Schedules a pair runs unless `MODEL_SCHEDULES` says otherwise: a fraction of a second each way.
pub(crate) const SCHEDULES: u64 = 20_000;

/// Steps a schedule takes at most. The deepest trace known of a naive version has 19 steps without any reduction;
/// four times that leaves room for the detours of chance.
const LONGEST: usize = 80;

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
            None => Self {
                first: own * 1_000_000,
                count: number("MODEL_SCHEDULES").unwrap_or(SCHEDULES),
            },
        }
    }
}

/// What the schedules of one model found.
pub(crate) struct Ran {
    pub(crate) seeds: u64,
    pub(crate) caught: u64,
    pub(crate) first: Option<Failure>,
}

/// The first schedule that was caught.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) violation: Violation,
    pub(crate) trace: Vec<String>,
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

/// Run one schedule a seed.
pub(crate) fn run<M: Model>(model: &M, seeds: Seeds) -> Ran {
    let mut ran = Ran { seeds: seeds.count, caught: 0, first: None };
    for seed in seeds.first..seeds.first + seeds.count {
        if let Some(violation) = schedule(model, seed, &mut |_, _| ()) {
            ran.caught += 1;
            if ran.first.is_none() {
                ran.first = Some(replay(model, seed, violation));
            }
        }
    }
    ran
}

fn replay<M: Model>(model: &M, seed: u64, violation: Violation) -> Failure {
    let mut trace = Vec::new();
    let again = schedule(model, seed, &mut |step, state| {
        trace.push(line(&step.to_string(), &state.map_or(String::new(), |state| model.show(state))));
    });
    assert_eq!(again, Some(violation), "seed {seed} must replay exactly");
    Failure { seed, violation, trace }
}

fn schedule<M: Model>(
    model: &M,
    seed: u64,
    watch: &mut dyn FnMut(&M::Step, Option<&M::State>),
) -> Option<Violation> {
    let mut chance = Chance(seed);
    let mut state = model.initial();
    let mut steps = Vec::new();
    for _ in 0..LONGEST {
        steps.clear();
        model.steps(&state, &mut steps);
        if steps.is_empty() {
            return None;
        }
        let (step, next) = &steps[chance.below(steps.len())];
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
