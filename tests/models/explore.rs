//! Breadth-first search over whole states: the first violation comes with a shortest trace.

use std::collections::VecDeque;
use std::fmt::Display;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use crate::violation::Violation;

/// Where a step leads.
pub(crate) type Next<S> = Result<S, Violation>;

/// A state machine whose every step may be taken at any time by anyone.
pub(crate) trait Model {
    type State: Copy + Eq + Hash;
    type Step: Copy + Display;

    fn initial(&self) -> Self::State;

    /// Every step possible in `state`, appended to `out`.
    fn steps(&self, state: &Self::State, out: &mut Vec<(Self::Step, Next<Self::State>)>);

    /// A property of the state itself, checked once in each.
    fn judge(&self, _state: &Self::State) -> Option<Violation> {
        None
    }

    /// Who takes a step, as a small number: schedules put one to sleep now and then.
    fn actor(&self, step: &Self::Step) -> usize;

    /// The state in one short line, for traces.
    fn show(&self, state: &Self::State) -> String;
}

/// How a search ended.
pub(crate) enum Explored {
    /// Every reachable state was seen, and none violates anything.
    Held {
        states: usize,
        depth: usize,
    },
    Caught {
        violation: Violation,
        states: usize,
        depth: usize,
        trace: Vec<String>,
    },
    /// The search stopped at [`MOST_STATES`]; nothing was found until there.
    Limit {
        states: usize,
    },
}

/// About 2 GB of states: above it a model does not fit a shared build machine. Bounds are chosen well below.
pub(crate) const MOST_STATES: usize = 12_000_000;

/// The table starts with room for 64 thousand states, and doubles.
const FIRST_TABLE: usize = 1 << 17;

const NOBODY: u32 = u32::MAX;

/// A fast hash for the table of states: bytes are gathered into words. Membership is decided by comparing whole states.
#[derive(Default)]
struct Mixer {
    mixed: u64,
    word: u64,
    bytes: u32,
}

impl Mixer {
    fn mix(&mut self) {
        let mixed = (self.mixed.rotate_left(5) ^ self.word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        *self = Self { mixed: mixed ^ (mixed >> 32), word: 0, bytes: 0 };
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.mix();
        last.mixed
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.word = (self.word << 8) | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.mix();
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.mix();
        self.word = word;
        self.mix();
    }

    fn write_usize(&mut self, word: usize) {
        // A length or a small index: its low byte tells it apart.
        self.write_u8((word & 0xFF) as u8);
    }

    fn write_isize(&mut self, word: isize) {
        // Which case of an enum.
        self.write_u8((word & 0xFF) as u8);
    }
}

/// The states seen, each once, with the state it was first reached from.
struct Seen<S> {
    states: Vec<S>,
    parents: Vec<u32>,
    table: Vec<u32>,
    hashing: BuildHasherDefault<Mixer>,
}

impl<S: Copy + Eq + Hash> Seen<S> {
    fn new() -> Self {
        Self {
            states: Vec::new(),
            parents: Vec::new(),
            table: vec![NOBODY; FIRST_TABLE],
            hashing: BuildHasherDefault::default(),
        }
    }

    fn place(&self, state: &S) -> usize {
        let mask = self.table.len() - 1;
        let mut place = (self.hashing.hash_one(state) as usize) & mask;
        // Ends: the table is never more than half full.
        while self.table[place] != NOBODY && self.states[self.table[place] as usize] != *state {
            place = (place + 1) & mask;
        }
        place
    }

    fn insert(&mut self, state: S, parent: u32) -> Option<u32> {
        let place = self.place(&state);
        if self.table[place] != NOBODY {
            return None;
        }
        let index = u32::try_from(self.states.len()).expect("fewer states than the limit");
        self.table[place] = index;
        self.states.push(state);
        self.parents.push(parent);
        if self.states.len() * 2 > self.table.len() {
            self.grow();
        }
        Some(index)
    }

    fn grow(&mut self) {
        self.table = vec![NOBODY; self.table.len() * 2];
        for index in 0..self.states.len() {
            let place = self.place(&self.states[index]);
            self.table[place] = index as u32;
        }
    }

    fn path(&self, last: u32) -> Vec<u32> {
        let mut path = vec![last];
        let mut at = last;
        while self.parents[at as usize] != NOBODY {
            at = self.parents[at as usize];
            path.push(at);
        }
        path.reverse();
        path
    }
}

/// Search every state reachable in `model`.
pub(crate) fn explore<M: Model>(model: &M) -> Explored {
    let mut seen = Seen::new();
    let mut queue = VecDeque::new();
    let mut steps = Vec::new();
    let mut depth = 0;
    let first = seen.insert(model.initial(), NOBODY).expect("the first state is new");
    queue.push_back((first, 0_usize));
    while let Some((index, at)) = queue.pop_front() {
        depth = depth.max(at);
        let state = seen.states[index as usize];
        if let Some(violation) = model.judge(&state) {
            return caught(model, &seen, index, None, violation);
        }
        steps.clear();
        model.steps(&state, &mut steps);
        for (step, next) in &steps {
            match next {
                Err(violation) => return caught(model, &seen, index, Some(*step), *violation),
                Ok(next) => {
                    if let Some(new) = seen.insert(*next, index) {
                        queue.push_back((new, at + 1));
                    }
                }
            }
        }
        if seen.states.len() > MOST_STATES {
            return Explored::Limit { states: seen.states.len() };
        }
    }
    Explored::Held { states: seen.states.len(), depth }
}

fn caught<M: Model>(model: &M, seen: &Seen<M::State>, last: u32, step: Option<M::Step>, violation: Violation) -> Explored {
    let path = seen.path(last);
    let mut trace = Vec::new();
    for pair in path.windows(2) {
        let (from, to) = (seen.states[pair[0] as usize], seen.states[pair[1] as usize]);
        let mut steps = Vec::new();
        model.steps(&from, &mut steps);
        let name = steps.iter().find(|(_, next)| *next == Ok(to)).map(|(step, _)| step.to_string());
        trace.push(line(&name.expect("the step that led here"), &model.show(&to)));
    }
    if let Some(step) = step {
        trace.push(line(&step.to_string(), &format!("{violation:?}")));
    }
    Explored::Caught { violation, states: seen.states.len(), depth: trace.len(), trace }
}

pub(crate) fn line(step: &str, state: &str) -> String {
    format!("{step:<64} {state}")
}
