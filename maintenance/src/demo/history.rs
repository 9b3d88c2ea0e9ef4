//! What the parent saw of a run, in the order in which it came: the material of the progress lines and of the page.

use std::collections::{BTreeMap, BTreeSet};

use super::Role;
use super::audit::Verdict;
use super::events::{Event, Pages, Resolution};
use super::plan::Shape;

/// The most marks that are remembered. Above every demo that the arguments allow with a few lost races a commit; beyond it
/// marks are counted and not kept.
pub const MAX_MARKS: usize = 4_000_000;

/// A point of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, in ms since the demo began.
    pub at: u64,
    /// Who.
    pub role: Role,
    /// What.
    pub what: What,
}

/// What a mark marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The parent started the process.
    Started,
    /// The parent killed it.
    Killed,
    /// It ended of itself.
    Ended,
    /// It won this slot.
    Committed(u64),
    /// It lost this slot.
    Lost(u64),
    /// Nothing was heard of its put to this slot.
    Unknown(u64),
    /// It learned what became of that put.
    Resolved(u64, Resolution),
    /// Everything up to this slot is folded.
    Folded(u64),
}

/// What one role did so far, killed processes and successors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Slots won.
    pub commits: u64,
    /// Slots lost to another.
    pub lost: u64,
    /// Puts that nothing was heard of.
    pub unknown: u64,
    /// Kills.
    pub kills: u64,
    /// Folds.
    pub folds: u64,
}

/// The run so far.
#[derive(Clone, Debug)]
pub struct History {
    /// What it was asked to do.
    pub shape: Shape,
    /// Every mark, in the order in which it came.
    pub marks: Vec<Mark>,
    /// Marks that were not kept.
    pub dropped: u64,
    /// The slots that were told of as won, so that one that a killed writer told of and its successor asks about counts once.
    pub won: BTreeSet<u64>,
    /// What each role did.
    pub tallies: BTreeMap<Role, Tally>,
    /// The highest slot that anybody told of.
    pub head: u64,
    /// The highest slot that is folded.
    pub folded: u64,
    /// The latest time that anybody told of, in ms since the demo began.
    pub now: u64,
    /// How much of the log the auditor found retired.
    pub pages: Option<Pages>,
    /// What the auditor counted.
    pub verdict: Option<Verdict>,
}

impl History {
    /// A run that has not begun. Every writer and the folder are in it from the start.
    pub fn new(shape: Shape) -> History {
        let roles = (0..shape.writers).map(Role::Writer).chain([Role::Folder]);
        let tallies = roles.map(|role| (role, Tally::default())).collect();
        History {
            shape,
            marks: Vec::new(),
            dropped: 0,
            won: BTreeSet::new(),
            tallies,
            head: 0,
            folded: 0,
            now: 0,
            pages: None,
            verdict: None,
        }
    }

    /// All commits so far: what kills are counted in.
    pub fn commits(&self) -> u64 {
        self.tallies.values().map(|tally| tally.commits).sum()
    }

    /// Takes in what a child told.
    pub fn tell(&mut self, role: Role, at: u64, event: &Event) {
        self.now = self.now.max(at);
        let what = match event {
            Event::Committed { sequence } => What::Committed(*sequence),
            Event::Lost { sequence } => What::Lost(*sequence),
            Event::Unknown { sequence } => What::Unknown(*sequence),
            Event::Resolved { sequence, as_what } => What::Resolved(*sequence, *as_what),
            Event::Folded { through } => What::Folded(*through),
            Event::Head { sequence } => {
                self.head = self.head.max(*sequence);
                return;
            }
            Event::Retired(pages) => {
                self.pages = Some(*pages);
                return;
            }
            Event::Audited(verdict) => {
                self.verdict = Some(verdict.as_ref().clone());
                return;
            }
            Event::Loaded { .. } | Event::Ready | Event::Done | Event::Failed { .. } => return,
        };
        self.mark(Mark { at, role, what });
        // What landed unheard is a slot won like any other, only told of later.
        if let What::Resolved(sequence, Resolution::Landed) = what {
            self.mark(Mark { at, role, what: What::Committed(sequence) });
        }
    }

    /// Takes in a mark, of a child or of the parent itself.
    pub fn mark(&mut self, mark: Mark) {
        self.now = self.now.max(mark.at);
        if let What::Committed(sequence) = mark.what
            && !self.won.insert(sequence)
        {
            return;
        }
        let tally = self.tallies.entry(mark.role).or_default();
        match mark.what {
            What::Committed(sequence) => {
                tally.commits += 1;
                self.head = self.head.max(sequence);
            }
            What::Lost(sequence) => {
                tally.lost += 1;
                self.head = self.head.max(sequence);
            }
            What::Killed => tally.kills += 1,
            What::Folded(through) => {
                tally.folds += 1;
                self.folded = self.folded.max(through);
                self.head = self.head.max(through);
            }
            // Every unknown put is resolved in the end, also one of which a killed process could not say that it is unknown.
            What::Resolved(..) => tally.unknown += 1,
            What::Started | What::Ended | What::Unknown(_) => {}
        }
        match self.marks.len() < MAX_MARKS {
            true => self.marks.push(mark),
            false => self.dropped += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tallies_count_a_role_across_its_processes() {
        let mut history = History::new(Shape { seed: 1, writers: 2, accounts: 2, transfers: 20 });
        let role = Role::Writer(1);
        history.mark(Mark { at: 1, role, what: What::Started });
        history.tell(role, 5, &Event::Lost { sequence: 3 });
        history.tell(role, 6, &Event::Committed { sequence: 4 });
        history.mark(Mark { at: 7, role, what: What::Killed });
        history.mark(Mark { at: 8, role, what: What::Started });
        history.tell(role, 9, &Event::Committed { sequence: 6 });
        history.tell(role, 9, &Event::Resolved { sequence: 6, as_what: Resolution::Landed });
        history.tell(Role::Folder, 4, &Event::Folded { through: 5 });
        assert_eq!(history.tallies[&role], Tally { commits: 2, lost: 1, unknown: 1, kills: 1, folds: 0 });
        assert_eq!((history.head, history.folded, history.now, history.commits()), (6, 5, 9, 2));
        assert_eq!(history.tallies.len(), 3);
        assert_eq!(history.marks.len(), 8, "a slot is won once, however often it is told of");
    }
}
