//! Every check goes red over a world that is wrong.

use commit_log::environment::Randomness;
use commit_log::identity::TransactionId;

use super::super::record::{Call, Tried};
use super::*;
use crate::linearizability::Action;

fn transaction(number: u64) -> TransactionId {
    TransactionId::random(&Randomness::from_seed(number))
}

fn slot(sequence: u64, member: u64, writes: &[(&str, Option<&str>)]) -> Landed {
    let bytes = |text: &str| Bytes::from(text.to_owned());
    let writes = writes.iter().map(|(key, value)| (bytes(key), value.map(bytes))).collect();
    Landed { sequence, effect: usize::try_from(sequence).unwrap() * 10, members: vec![transaction(member)], writes }
}

fn told(member: u64, told: Told) -> Recorded {
    let tried = Tried { offered: vec![1], told };
    Recorded { transactions: BTreeMap::from([(transaction(member), tried)]), ..Recorded::default() }
}

fn seen(head: u64, prefix: &'static str, rows: &[(&str, &str)]) -> Observation {
    let rows = rows.iter().map(|(key, value)| (Bytes::from((*key).to_owned()), Bytes::from((*value).to_owned()))).collect();
    Observation { reader: "test", head, prefix, rows }
}

#[test]
fn a_gap_between_slots_is_found() {
    assert!(slots_are_whole(&[slot(1, 1, &[]), slot(2, 2, &[])]).is_ok());
    assert!(slots_are_whole(&[slot(1, 1, &[]), slot(3, 2, &[])]).is_err());
}

#[test]
fn an_acknowledged_commit_that_is_not_there_or_twice_is_found() {
    let landed = [slot(1, 1, &[])];
    assert!(each_is_committed_once(&told(1, Told::Committed(1)), &landed).is_ok());
    assert!(each_is_committed_once(&told(2, Told::Committed(1)), &landed).is_err());
    assert!(each_is_committed_once(&told(1, Told::Committed(1)), &[slot(1, 1, &[]), slot(2, 1, &[])]).is_err());
}

#[test]
fn a_refused_commit_that_is_there_is_found() {
    for reason in ["conflict", "out of time", "refused"] {
        assert!(each_is_committed_once(&told(1, Told::NotCommitted(reason)), &[slot(1, 1, &[])]).is_err(), "{reason}");
    }
    assert!(each_is_committed_once(&told(1, Told::Unknown(1)), &[slot(1, 1, &[])]).is_ok());
    assert!(each_is_committed_once(&told(1, Told::Unknown(2)), &[slot(1, 1, &[])]).is_err());
    assert!(each_is_committed_once(&told(1, Told::Nothing), &[slot(2, 1, &[])]).is_err());
}

#[test]
fn a_view_that_goes_back_or_misses_its_own_write_is_found() {
    let session = |steps: &[Step]| sessions_move_forward(&BTreeMap::from([(Incarnation::default(), steps.to_vec())]));
    assert!(session(&[Step::Saw(1), Step::Committed(3), Step::Saw(3)]).is_ok());
    assert!(session(&[Step::Saw(2), Step::Saw(1)]).is_err());
    assert!(session(&[Step::Committed(3), Step::Saw(2)]).is_err());
}

#[test]
fn a_latest_view_without_what_was_acknowledged_is_found() {
    let latest = |acknowledged, head| {
        let steps = vec![Step::Latest { acknowledged, head }];
        sessions_move_forward(&BTreeMap::from([(Incarnation::default(), steps)]))
    };
    assert!(latest(3, 3).is_ok());
    assert!(latest(3, 2).is_err());
}

#[test]
fn fewer_rows_other_rows_and_rows_of_later_slots_are_found() {
    let landed = [slot(1, 1, &[("k/a", Some("1")), ("k/b", Some("1"))]), slot(2, 2, &[("k/a", None)])];
    let judge = |observation: Observation| observations_are_true(&[observation], &landed);
    assert!(judge(seen(1, "k/", &[("k/a", "1"), ("k/b", "1")])).is_ok());
    assert!(judge(seen(2, "k/", &[("k/b", "1")])).is_ok());
    assert!(judge(seen(1, "k/", &[("k/b", "1")])).is_err());
    assert!(judge(seen(2, "k/", &[("k/a", "1"), ("k/b", "1")])).is_err());
    assert!(judge(seen(2, "k/b", &[("k/b", "2")])).is_err());
}

#[test]
fn a_bank_that_is_not_whole_is_found() {
    let accounts: Vec<(String, String)> = (0..6).map(|number| (format!("account/{number:02}"), "100".to_owned())).collect();
    let mut rows: Vec<(&str, &str)> = accounts.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert!(bank_is_whole(&seen(1, "account/", &rows)).is_ok());
    rows[2].1 = "99";
    assert!(bank_is_whole(&seen(1, "account/", &rows)).is_err());
}

#[test]
fn a_transaction_that_read_what_was_overwritten_is_found() {
    let mut did = Did::default();
    did.note(b"account/01", Some(&Bytes::from_static(b"100")));
    let text = String::from_utf8(did.encode().to_vec()).unwrap();
    let deed = [("deed/1", Some(text.as_str()))];
    assert!(reads_are_serial(&[slot(1, 1, &[("account/01", Some("100"))]), slot(2, 2, &deed)]).is_ok());
    assert!(reads_are_serial(&[slot(1, 1, &[("account/01", Some("99"))]), slot(2, 2, &deed)]).is_err());
}

#[test]
fn a_row_that_appeared_in_a_scanned_range_is_found() {
    let did = Did { scanned: Some("register/".to_owned()), ..Did::default() };
    let text = String::from_utf8(did.encode().to_vec()).unwrap();
    let deed = [("deed/1", Some(text.as_str()))];
    assert!(reads_are_serial(&[slot(1, 1, &[]), slot(2, 2, &deed)]).is_ok());
    assert!(reads_are_serial(&[slot(1, 1, &[("register/01", Some("x"))]), slot(2, 2, &deed)]).is_err());
}

#[test]
fn a_manifest_of_a_fenced_holder_is_found() {
    let landed: Vec<Landed> = (1..=9).map(|sequence| slot(sequence, sequence, &[])).collect();
    let manifest = |id, process, epoch, covered| Manifest {
        id,
        effect: 1_000 + usize::try_from(id).unwrap(),
        process,
        epoch,
        covered,
        replay_point: covered,
    };
    let takes = BTreeMap::from([(1, 1), (2, 2)]);
    let judge = |manifests: &[Manifest]| one_holder_folds(manifests, &takes, &landed);
    assert_eq!(judge(&[manifest(1, 1, 1, 0), manifest(2, 1, 1, 3), manifest(3, 2, 2, 3), manifest(4, 2, 2, 7)]), Ok(2));
    assert!(judge(&[manifest(1, 2, 2, 3), manifest(2, 1, 1, 5)]).is_err(), "an older epoch");
    assert!(judge(&[manifest(1, 2, 2, 3), manifest(2, 1, 2, 5)]).is_err(), "not who took it");
    assert!(judge(&[manifest(1, 1, 1, 5), manifest(2, 1, 1, 3)]).is_err(), "goes back");
    assert!(judge(&[manifest(1, 1, 1, 5), manifest(2, 1, 1, 99)]).is_err(), "covers what never landed");
    assert_eq!(judge(&[manifest(5, 2, 2, 5), manifest(4, 1, 1, 3)]), Ok(0), "below the newest it counts for nothing");
}

#[test]
fn what_landed_unheard_is_in_the_history_and_what_was_refused_is_not() {
    let call = |member: u64, answered| Call {
        key: Bytes::from_static(b"register/01"),
        called: member,
        action: Some(Action::Write(Some(Bytes::from(member.to_string())))),
        transaction: Some(transaction(member)),
        answered,
    };
    let recorded = Recorded { calls: vec![call(1, Some(5)), call(2, None), call(3, None)], ..Recorded::default() };
    let history = history_of(&recorded, &[slot(1, 1, &[]), slot(2, 2, &[])]);
    let ends: Vec<End> = history.iter().map(|operation| operation.end).collect();
    assert_eq!(ends, [End::Answered(5), End::Unheard]);
    let stale = Operation { key: history[0].key.clone(), action: Action::Read(None), called: 6, end: End::Answered(7) };
    assert!(registers_are_linearizable(&history).is_ok());
    assert!(registers_are_linearizable(&[history[0].clone(), stale]).is_err());
}
