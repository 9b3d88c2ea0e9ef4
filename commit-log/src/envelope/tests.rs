use super::*;

fn rules() -> Rules {
    Rules { reserved_key: Bytes::from_static(b"\0reserved"), max_slot_bytes: 1 << 20, route: None }
}

fn envelope() -> Envelope {
    Envelope {
        log: LogId::from_bytes([1; 16]),
        sequence: Sequence::new(42).unwrap(),
        nonce: [2; 16],
        parent: OwnId::from_bytes([3; 16]),
        kind: SlotKind::Commit,
        validated_head: Bytes::from_static(b"41"),
        changes_made: Bytes::from_static(b"inserted_into_table:1"),
        members: vec![TransactionId::from_bytes([4; 16])],
        stamp: 1_700_000_000_000,
        turn: Turn { waiting: true, put_millis: 12 },
        writes: vec![Write::put("account/1", "90"), Write::delete("account/2"), Write::put("account/3", "")],
    }
}

fn decode(bytes: Bytes) -> Result<Slot, Damage> {
    Slot::decode(bytes, envelope().log, envelope().sequence)
}

fn refusal(change: impl FnOnce(&mut Envelope)) -> Refused {
    let mut envelope = envelope();
    change(&mut envelope);
    Slot::seal(envelope, &rules()).expect_err("refused")
}

#[test]
fn an_envelope_comes_back_whole_with_the_same_own_id() {
    let sealed = Slot::seal(envelope(), &rules()).unwrap();
    let decoded = decode(sealed.bytes().clone()).unwrap();
    assert_eq!(decoded.envelope(), &envelope());
    assert_eq!(decoded.own_id(), sealed.own_id());
}

#[test]
fn the_bytes_of_a_slot_do_not_change_between_builds() {
    let sealed = Slot::seal(envelope(), &rules()).unwrap();
    let golden = include_str!("golden/slot.hex").trim();
    let found: String = sealed.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, golden);
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let whole = Slot::seal(envelope(), &rules()).unwrap().bytes().clone();
    for length in 0..whole.len() {
        assert!(decode(whole.slice(..length)).is_err(), "cut at {length}");
    }
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(Bytes::from(flipped)).is_err(), "bit {bit}");
    }
}

#[test]
fn a_slot_under_another_name_or_of_another_log_is_refused() {
    let bytes = Slot::seal(envelope(), &rules()).unwrap().bytes().clone();
    assert!(Slot::decode(bytes.clone(), envelope().log, Sequence::FIRST).is_err());
    assert!(Slot::decode(bytes, LogId::from_bytes([9; 16]), envelope().sequence).is_err());
}

#[test]
fn one_content_with_two_nonces_has_two_own_ids() {
    let one = Slot::seal(envelope(), &rules()).unwrap();
    let other = Slot::seal(Envelope { nonce: [5; 16], ..envelope() }, &rules()).unwrap();
    assert_ne!(one.own_id(), other.own_id());
}

#[test]
fn one_nonce_with_two_contents_has_two_own_ids() {
    let one = Slot::seal(envelope(), &rules()).unwrap();
    let other = Slot::seal(Envelope { writes: vec![Write::put("account/1", "91")], ..envelope() }, &rules()).unwrap();
    assert_ne!(one.own_id(), other.own_id());
}

#[test]
fn what_would_make_a_store_unreadable_is_refused_by_name() {
    assert_eq!(refusal(|e| e.writes.clear()), Refused::Empty);
    assert_eq!(refusal(|e| e.writes = vec![Write::put("", "1")]), Refused::EmptyKey);
    let long = Bytes::from(vec![b'k'; Rules::MAX_KEY_BYTES + 1]);
    assert!(matches!(refusal(|e| e.writes = vec![Write::put(long, "1")]), Refused::Key { bytes: 65_536, limit: 65_535, .. }));
    assert!(matches!(refusal(|e| e.writes = vec![Write::delete(rules().reserved_key)]), Refused::ReservedKey { .. }));
    let twice = vec![Write::put("a", "1"), Write::put("a", "2")];
    assert!(matches!(refusal(|e| e.writes = twice), Refused::Order { .. }));
    assert!(matches!(refusal(|e| e.writes = vec![Write::put("a", vec![0; 2 << 20])]), Refused::Slot { limit: 1_048_576, .. }));
    assert!(matches!(refusal(|e| e.members.clear()), Refused::Members { found: 0, .. }));
    assert!(matches!(refusal(|e| e.validated_head = vec![0; 1025].into()), Refused::ValidatedHead { .. }));
    assert!(matches!(refusal(|e| e.changes_made = vec![0; 65_537].into()), Refused::ChangesMade { .. }));
}

#[test]
fn a_key_that_the_segment_extractor_cannot_route_is_refused() {
    let rules = Rules { route: Some(std::sync::Arc::new(|key: &[u8]| key.len() > 20)), ..rules() };
    assert!(matches!(Slot::seal(envelope(), &rules), Err(Refused::Unroutable { .. })));
}

#[test]
fn a_filler_deletes_the_reserved_key_and_nothing_else_may() {
    let filler = Envelope { kind: SlotKind::Filler, writes: vec![Write::delete(rules().reserved_key)], ..envelope() };
    assert!(Slot::seal(filler, &rules()).is_ok());
}

#[test]
fn a_refusal_shows_a_long_key_cut_and_escaped() {
    let message = Refused::ReservedKey { key: Bytes::from(vec![0xff; 100]) }.to_string();
    assert!(message.starts_with("key \\xff\\xff"), "{message}");
    assert!(message.ends_with("… is reserved for the commit log"), "{message}");
}

#[test]
fn stamps_never_run_backwards_nor_leap_further_than_the_bound() {
    assert_eq!(stamp_after(None, 5), 5);
    assert_eq!(stamp_after(Some(10), 5), 10);
    assert_eq!(stamp_after(Some(10), 20), 20);
    assert_eq!(stamp_after(Some(10), u64::MAX), 10 + MAX_STAMP_LEAP_MILLIS);
}
