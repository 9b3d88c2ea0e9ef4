//! Slots follow one another without a gap, each the child of the one before, each put by somebody; and where a client was
//! told that nothing was sent, nothing was.

use commit_log::envelope::first_parent;

use super::Evidence;
use crate::log_world::chronicle::Oddity;
use crate::log_world::told::Claim;

/// The genuine slots against one another, and *nothing sent* against the puts.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let chronicle = evidence.chronicle;
    let mut expected = (chronicle.origin(), first_parent(chronicle.log()));
    let mut effect = None;
    for (sequence, landed) in chronicle.genuine() {
        if (*sequence, landed.slot.envelope().parent) != expected || Some(landed.effect) < effect {
            return Err(format!("{landed:?} does not follow what was there when it landed, expected {expected:?}"));
        }
        expected = (sequence.next(), landed.own_id());
        effect = Some(landed.effect);
    }
    for odd in chronicle.oddities() {
        match odd {
            Oddity::Replaced(_) | Oddity::LedgerDeleted(_) | Oddity::Undecodable(_) => return Err(format!("{odd:?}")),
            Oddity::CreatedTwice(_) | Oddity::OtherLog(_) => {}
        }
    }
    for told in evidence.told {
        let Claim::NothingSent(attempt) = &told.claim else { continue };
        let sent = chronicle.sent().iter().find(|sent| {
            (told.asked.sent..told.heard.sent).contains(&sent.number)
                && sent.sequence == attempt.sequence
                && sent.slot.carries(attempt.transaction)
        });
        if let Some(sent) = sent {
            return Err(format!("nothing was sent for {attempt:?}, and yet {sent:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_gap_is_found() {
        assert!(Story::new().land(1, 7).land(2, 8).run(check).is_ok());
        assert!(Story::new().land(1, 7).land(3, 8).run(check).is_err());
    }

    #[test]
    fn a_put_that_was_denied_is_found() {
        assert!(Story::new().land(1, 7).asked().send(2, 8).nothing_sent(9, 2).run(check).is_ok());
        assert!(Story::new().land(1, 7).asked().send(2, 8).nothing_sent(8, 2).run(check).is_err());
    }
}
