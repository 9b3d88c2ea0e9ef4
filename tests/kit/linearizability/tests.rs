//! Histories that are known to be linearizable, and histories that are known not to be.

use super::{Action, End, MAX_OPERATIONS, Operation, Value, Verdict, check, check_within};

fn value(text: &'static str) -> Value {
    (!text.is_empty()).then(|| text.into())
}

fn on(key: &'static str, action: Action, called: u64, end: End) -> Operation {
    Operation { key: key.into(), action, called, end }
}

fn read(found: &'static str, called: u64, answered: u64) -> Operation {
    on("k", Action::Read(value(found)), called, End::Answered(answered))
}

fn write(written: &'static str, called: u64, answered: u64) -> Operation {
    on("k", Action::Write(value(written)), called, End::Answered(answered))
}

fn exchange(found: &'static str, written: &'static str, called: u64, answered: u64) -> Operation {
    on("k", Action::Exchange(value(found), value(written)), called, End::Answered(answered))
}

fn unknown(operation: Operation) -> Operation {
    Operation { end: End::Unknown, ..operation }
}

fn is_refused(history: &[Operation]) -> bool {
    matches!(check(history), Verdict::Not { .. })
}

#[test]
fn operations_that_overlap_may_take_effect_in_any_order() {
    let both_ways = ["1", "2"].map(|last| [write("1", 0, 10), write("2", 1, 9), read(last, 11, 12)]);
    for history in both_ways {
        assert_eq!(check(&history), Verdict::Linearizable);
    }
    assert_eq!(check(&[write("1", 0, 10), read("", 1, 2), read("1", 3, 4)]), Verdict::Linearizable);
}

#[test]
fn a_stale_read_is_refused() {
    assert!(is_refused(&[write("1", 0, 1), write("2", 2, 3), read("1", 4, 5)]));
    assert!(is_refused(&[write("1", 0, 1), read("", 2, 3)]));
}

#[test]
fn a_lost_update_is_refused() {
    let lost = [write("0", 0, 1), exchange("0", "1", 2, 6), exchange("0", "2", 3, 7)];
    assert!(is_refused(&lost));
    let found = [write("0", 0, 1), exchange("0", "1", 2, 6), exchange("1", "2", 3, 7)];
    assert_eq!(check(&found), Verdict::Linearizable);
}

#[test]
fn reads_that_go_back_are_refused() {
    assert!(is_refused(&[write("1", 0, 1), write("2", 2, 20), read("2", 3, 4), read("1", 5, 6)]));
}

#[test]
fn an_unknown_write_may_take_effect_late_or_never_and_only_once() {
    let late = [unknown(write("1", 0, 0)), read("", 1, 2), read("1", 3, 4), read("1", 5, 6)];
    assert_eq!(check(&late), Verdict::Linearizable);
    let never = [unknown(write("1", 0, 0)), read("", 1, 2), read("", 3, 4)];
    assert_eq!(check(&never), Verdict::Linearizable);
    let twice = [unknown(write("1", 0, 0)), read("1", 1, 2), write("2", 3, 4), read("2", 5, 6), read("1", 7, 8)];
    assert!(is_refused(&twice));
    let early = [read("1", 1, 2), unknown(write("1", 3, 3))];
    assert!(is_refused(&early));
}

#[test]
fn a_write_that_landed_unheard_must_take_effect() {
    let unheard = |action| on("k", action, 0, End::Unheard);
    assert_eq!(check(&[unheard(Action::Write(value("1"))), read("", 1, 2)]), Verdict::Linearizable);
    assert!(is_refused(&[unheard(Action::Exchange(value("never"), value("1"))), read("", 1, 2)]));
}

#[test]
fn registers_are_judged_apart_and_the_guilty_one_is_named() {
    let other = |called| on("other", Action::Read(value("1")), called, End::Answered(called + 1));
    let Verdict::Not { key, unplaced } = check(&[write("1", 0, 1), other(2), read("1", 4, 5)]) else { panic!() };
    assert_eq!((key, unplaced.len()), ("other".into(), 1));
}

#[test]
fn a_search_without_end_is_given_up_and_said_so() {
    let many: Vec<Operation> = (0..40).map(|_| unknown(write("1", 0, 0))).chain([read("2", 1, 2)]).collect();
    assert_eq!(check_within(&many, 1_000), Verdict::Undecided { key: "k".into() });
    let too_many = vec![write("1", 0, 1); MAX_OPERATIONS + 1];
    assert_eq!(check(&too_many), Verdict::Undecided { key: "k".into() });
}

#[test]
fn a_long_history_of_a_real_register_is_accepted_and_one_wrong_answer_is_found() {
    let values: Vec<&'static str> = (0..50).map(|number| &*Box::leak(number.to_string().into_boxed_str())).collect();
    let mut history = Vec::new();
    for (step, pair) in values.windows(2).enumerate() {
        let at = step as u64 * 10;
        // Each overlaps with the next, as two processes would.
        history.push(if step == 0 { write(pair[1], at, at + 12) } else { exchange(pair[0], pair[1], at, at + 12) });
        history.push(read(pair[1], at + 8, at + 9));
    }
    assert_eq!(check(&history), Verdict::Linearizable);
    let wrong = history.len() - 21;
    history[wrong].action = Action::Read(value("3"));
    assert!(is_refused(&history));
}
