//! What a committer does next after an unknown end and after a loss.

use crate::design::{AfterLoss, AfterUnknown, Design, OfferAt};
use crate::pair::Pair;
use crate::violation::Violation;

const SAFE: Design = Design::safe();

#[test]
fn an_unknown_commit_is_never_offered_at_another_sequence_first() {
    let naive = Design { after_unknown: AfterUnknown::ReofferedAtTheNextSequence, ..SAFE };
    Pair::new("unknown: offered at the next sequence", naive, Violation::DoubleCommit).check();
}

#[test]
fn a_stale_head_loses_and_never_skips() {
    let naive = Design { after_loss: AfterLoss::OfferedAsItIs, ..SAFE };
    Pair::new("offered again as it is", naive, Violation::StaleHead).check();
}

#[test]
fn an_offer_goes_to_the_head_plus_one_and_leaves_no_hole() {
    let naive = Design { offer_at: OfferAt::FurtherAhead, ..SAFE };
    Pair::new("a number minted further ahead", naive, Violation::Hole).check();
}
