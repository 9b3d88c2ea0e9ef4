//! The checkers: one invariant each, judged from the bucket's history and from what clients were told, never from what the
//! log's code believes of itself.

pub mod acknowledged_is_durable_once;
pub mod create_below_the_floor_is_no_commit;
pub mod end_of_the_tail_is_proven;
#[cfg(test)]
mod fixture;
pub mod hole_above_the_floor_is_damage;
pub mod ledger_before_delete;
pub mod live_checkpoint_keeps_its_slots;
pub mod neighbours_do_not_vouch;
pub mod no_gaps_none_invented;
pub mod no_other_incarnation;
pub mod nothing_unfolded_is_retired;
pub mod one_transaction_one_open_slot;
pub mod one_winner_a_slot;
pub mod own_object_is_a_win;
pub mod read_fault_is_an_error;
pub mod slot_is_what_it_says;
pub mod unknown_resolves_and_stays;

use std::fmt;

use crate::log_world::chronicle::Chronicle;
use crate::log_world::manifests::Manifests;
use crate::log_world::told::Told;

/// What a checker judges from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The log as it truly is.
    pub chronicle: &'a Chronicle,
    /// What clients were told, in order.
    pub told: &'a [Told],
    /// What the store had folded when, and what held pages back.
    pub manifests: &'a Manifests,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What broke it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// A checker: the first thing that breaks its invariant, in words.
pub type Check = fn(&Evidence<'_>) -> Result<(), String>;

/// Every invariant with its checker. The more telling come first: one wrong answer breaks several.
pub const ALL: &[(&str, Check)] = &[
    ("nothing unfolded is retired", nothing_unfolded_is_retired::check),
    ("a live checkpoint keeps its slots", live_checkpoint_keeps_its_slots::check),
    ("neighbours do not vouch", neighbours_do_not_vouch::check),
    ("a create below the floor is no commit", create_below_the_floor_is_no_commit::check),
    ("own object is a win", own_object_is_a_win::check),
    ("one transaction, one open slot", one_transaction_one_open_slot::check),
    ("no other incarnation", no_other_incarnation::check),
    ("a hole above the floor is damage", hole_above_the_floor_is_damage::check),
    ("a slot is what it says", slot_is_what_it_says::check),
    ("a read fault is an error", read_fault_is_an_error::check),
    ("the end of the tail is proven", end_of_the_tail_is_proven::check),
    ("unknown resolves and stays", unknown_resolves_and_stays::check),
    ("one winner a slot", one_winner_a_slot::check),
    ("no gaps, none invented", no_gaps_none_invented::check),
    ("acknowledged is durable once", acknowledged_is_durable_once::check),
    ("a ledger before a delete", ledger_before_delete::check),
];

/// Runs every checker.
///
/// # Errors
///
/// The first invariant that does not hold.
pub fn check_all(evidence: &Evidence<'_>) -> Result<(), Violation> {
    ALL.iter().try_for_each(|(invariant, check)| check(evidence).map_err(|what| Violation { invariant, what }))
}
