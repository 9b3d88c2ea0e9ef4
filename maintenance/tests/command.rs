//! The command as it is typed: exit codes, one line for every mistake, and no secret in anything it prints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "test code: a broken expectation must stop the test that met it"
)]

use std::process::{Command, Output};

const SECRET: &str = "FAKEsecret1234";

fn run(line: &str) -> std::io::Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_commit-log"));
    command.args(line.split_whitespace());
    // Nobody listens there, so no request leaves this machine.
    command.env("AWS_ENDPOINT", "http://127.0.0.1:1").env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "nowhere");
    command.env("AWS_ACCESS_KEY_ID", "AKIAFAKE").env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_SESSION_TOKEN", SECRET);
    command.env("AZURE_STORAGE_ACCOUNT_NAME", "fake").env("AZURE_STORAGE_ACCOUNT_KEY", SECRET);
    command.env("AZURE_STORAGE_SAS_TOKEN", format!("sv=1&sig={SECRET}")).env("GOOGLE_SERVICE_ACCOUNT_KEY", SECRET);
    command.output()
}

#[test]
fn a_wrong_place_is_one_line_and_wrong_usage() {
    for place in [
        "http://host/p".to_owned(),
        "memory:///".to_owned(),
        format!("s3://key:{SECRET}@bucket/p"),
        format!("s3://bucket/p?key={SECRET}"),
        format!("az://container/p?sig={SECRET}"),
        format!("file://user:{SECRET}@host/p"),
    ] {
        let output = run(&format!("status {place}")).unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("error: `") && !text.contains(SECRET), "{text}");
    }
}

#[test]
fn reading_a_directory_that_is_not_there_says_so_and_creates_nothing() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing");
    for verb in ["status", "scan", "get"] {
        let key = if verb == "get" { "key" } else { "" };
        let output = run(&format!("{verb} {} {key}", missing.display())).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("error: no such directory: `{}`\n", missing.display()));
        assert!(!missing.exists());
    }
}

#[test]
fn no_secret_of_the_environment_or_of_a_url_is_printed() {
    for line in [
        "status s3://bucket/p".to_owned(),
        "scan az://container/p".to_owned(),
        "get gs://bucket/p key".to_owned(),
        format!("status s3://bucket/p s3://key:{SECRET}@bucket/p"),
        format!("demo --writers s3://key:{SECRET}@bucket/p"),
    ] {
        let output = run(&line).unwrap();
        let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert_ne!(output.status.code(), Some(0), "{line}");
        assert!(!printed.is_empty() && !printed.contains(SECRET), "{line}: {printed}");
    }
}
