use std::io::{BufReader, Cursor};

use super::*;

fn read(format: RowFormat, text: &[u8]) -> Result<Vec<Row>, ReadError> {
    RowReader::new(Cursor::new(text), format, "rows").collect()
}

fn written(format: RowFormat, rows: &[Row]) -> Result<Vec<u8>, WriteError> {
    let mut writer = RowWriter::new(Vec::new(), format);
    for row in rows {
        writer.write(row)?;
    }
    writer.finish()
}

fn row(key: &'static [u8], value: &'static [u8]) -> Row {
    Row { key: Bytes::from_static(key), value: Bytes::from_static(value) }
}

fn json_refusal(line: &str) -> String {
    read(RowFormat::JsonLines, line.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_tsv_file_comes_back_byte_for_byte() {
    let file = b"a\tone\nb\t\nc\ttwo\tthree \r\n\xff\x00\t\xfe\x01\nb\tagain\n";
    let rows = read(RowFormat::Tsv, file).unwrap();
    assert_eq!(rows[2], row(b"c", b"two\tthree \r"));
    assert_eq!(rows.len(), 5);
    assert_eq!(written(RowFormat::Tsv, &rows).unwrap(), file);
}

#[test]
fn a_real_file_comes_back_byte_for_byte() {
    // This source file, each line under its number.
    let numbered = |(at, line): (usize, &str)| format!("tests.rs:{:06}\t{line}\n", at + 1);
    let file: String = include_str!("tests.rs").lines().enumerate().map(numbered).collect();
    let reader = RowReader::new(BufReader::with_capacity(7, file.as_bytes()), RowFormat::Tsv, "tests.rs");
    let rows = reader.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(written(RowFormat::Tsv, &rows).unwrap(), file.as_bytes());
    let json = written(RowFormat::JsonLines, &rows).unwrap();
    assert_eq!(read(RowFormat::JsonLines, &json).unwrap(), rows);
}

#[test]
fn the_last_line_may_lack_its_line_feed() {
    assert_eq!(read(RowFormat::Tsv, b"a\t1\nb\t2").unwrap(), [row(b"a", b"1"), row(b"b", b"2")]);
    assert_eq!(read(RowFormat::Tsv, b"").unwrap(), []);
}

#[test]
fn json_uses_base64_only_for_the_field_that_needs_it() {
    let rows = [row("ä\t\n\"".as_bytes(), b"\xff"), row(b"\xfe\x00", b"plain"), row(b"k", b"")];
    let json = written(RowFormat::JsonLines, &rows).unwrap();
    let text = String::from_utf8(json.clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], r#"{"key":"ä\t\n\"","value_base64":"/w=="}"#);
    assert_eq!(lines[1], r#"{"key_base64":"/gA=","value":"plain"}"#);
    assert_eq!(lines[2], r#"{"key":"k","value":""}"#);
    assert_eq!(read(RowFormat::JsonLines, &json).unwrap(), rows);
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let no_tab = read(RowFormat::Tsv, b"a\t1\nb\n").unwrap_err().to_string();
    assert!(no_tab.starts_with("rows, line 2: expected a key, a tab"), "{no_tab}");
    let empty = read(RowFormat::Tsv, b"a\t1\nb\t2\n\tx\n").unwrap_err().to_string();
    assert_eq!(empty, "rows, line 3: the key is empty");
    assert_eq!(json_refusal(r#"{"key":"","value":"x"}"#), "rows, line 1: the key is empty");
}

#[test]
fn json_that_is_no_row_is_refused() {
    for line in
        ["x", "[]", "{\"key\":1,\"value\":\"\"}", r#"{"key":"a","value":"b","more":1}"#, r#"{"key":"a","key":"b","value":""}"#]
    {
        assert!(json_refusal(line).starts_with("rows, line 1: expected a JSON object"), "{line}");
    }
    assert_eq!(json_refusal(r#"{"key":"a"}"#), "rows, line 1: expected exactly one of `value` and `value_base64`");
    let both = r#"{"key":"a","key_base64":"YQ==","value":""}"#;
    assert_eq!(json_refusal(both), "rows, line 1: expected exactly one of `key` and `key_base64`");
    assert_eq!(json_refusal(r#"{"key_base64":"*","value":""}"#), "rows, line 1: `key_base64` is not base64");
}

#[test]
fn a_line_is_bounded() {
    let mut file = b"k\t".to_vec();
    file.resize(MAX_LINE_BYTES, b'x');
    assert_eq!(read(RowFormat::Tsv, &file).unwrap().len(), 1);
    file.extend_from_slice(b"x");
    assert!(matches!(read(RowFormat::Tsv, &file), Err(ReadError::TooLong { line: 1, .. })));
}

#[test]
fn a_reader_ends_after_its_first_error() {
    let mut reader = RowReader::new(Cursor::new(b"bad\na\t1\n"), RowFormat::Tsv, "rows");
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_row_that_tsv_cannot_hold_is_named_with_a_hint() {
    for (bad, what) in [
        (row(b"a\tb", b""), Unholdable::TabInKey),
        (row(b"a\nb", b""), Unholdable::LineFeedInKey),
        (row(b"a", b"1\n2"), Unholdable::LineFeedInValue),
    ] {
        let error = written(RowFormat::Tsv, &[bad]).unwrap_err();
        assert!(matches!(error, WriteError::TsvCannotHold { what: actual, .. } if actual == what), "{error}");
        assert!(error.to_string().ends_with("use --json"), "{error}");
    }
    let error = written(RowFormat::Tsv, &[row(b"a\tb", b"")]).unwrap_err().to_string();
    assert_eq!(error, r#"row "a\tb": a TSV line cannot hold a key with a tab; use --json"#);
}
