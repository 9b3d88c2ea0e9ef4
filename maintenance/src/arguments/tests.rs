use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Verb, clap::Error> {
    Arguments::try_parse_from(std::iter::once("commit-log").chain(line.split_whitespace())).map(|arguments| arguments.verb)
}

#[test]
fn the_definition_is_sound() {
    Arguments::command().debug_assert();
}

#[test]
fn a_newcomer_types_one_word() {
    let Verb::Demo(demo) = parse("demo").unwrap() else { panic!("not a demo") };
    assert_eq!((demo.writers, demo.accounts, demo.transfers, demo.seed), (4, 100, 5_000, None));
    assert_eq!((demo.directory, demo.page_size), (None, 64));
    let Verb::Retire(retire) = parse("retire s").unwrap() else { panic!("not a retire") };
    assert_eq!((retire.retain_pages.get(), retire.min_age, retire.dry_run), (2, 0, false));
}

#[test]
fn bounds_are_kept_by_the_parser() {
    for line in [
        "demo --writers 0",
        "demo --writers 65",
        "demo --accounts 1",
        "demo --transfers 5",
        "demo --page-size 0",
        "demo --page-size 8193",
        "load s --from f --batch 0",
        "load s --from f --writers 0",
        "outcome s 00 1",
        "retire s --retain-pages 0",
        "retire s --min-age soon",
        "outcome s 000102030405060708090a0b0c0dfeff 0",
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ValueValidation, "{line}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    assert!(parse("outcome s 000102030405060708090a0b0c0dfeff 7 --close").is_ok());
}

#[test]
fn every_option_says_what_it_is_for() {
    let mut command = Arguments::command();
    command.build();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        for argument in verb.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", verb.get_name(), argument.get_id());
        }
    }
    let help = command.render_long_help().to_string();
    assert!(!help.contains("child"));
    assert!(help.starts_with("Several processes commit to one SlateDB store"), "{help}");
}

#[test]
fn a_secret_in_a_url_is_not_printed_by_the_arguments() {
    let secret = "FAKEsecret1234";
    let verb = parse(&format!("status s3://key:{secret}@bucket/p?sig={secret}")).unwrap();
    assert!(!format!("{verb:?}{verb:#?}").contains(secret));
    let twice = parse(&format!("status s3://b/p s3://key:{secret}@bucket/p")).unwrap_err();
    assert!(!crate::location::redacted(&twice.to_string()).contains(secret));
}

#[test]
fn a_child_is_told_exactly_what_its_parent_means() {
    let place = DemoPlace {
        store: Address::from("s3://bucket/a b"),
        directory: PathBuf::from("/tmp/with space"),
        began_at: 1_796_000_000_000,
        seed: u64::MAX,
        writers: 4,
        accounts: 100,
        transfers: 2_000,
        page_size: NonZeroU32::new(256).unwrap(),
    };
    let load = Load { store: Address::from("dir"), from: "f".into(), batch: 7, writers: 3, json: true, no_progress: false };
    for task in [
        Task::DemoWriter(DemoWriter { writer: 3, place: place.clone() }),
        Task::DemoFolder(place.clone()),
        Task::DemoAuditor(place),
        Task::LoadWriter(LoadWriter { share: 2, load }),
    ] {
        let typed = std::iter::once(OsString::from("commit-log")).chain(task.typed());
        let Verb::Child(child) = Arguments::try_parse_from(typed).unwrap().verb else { panic!("not a child") };
        assert_eq!(child.task, task);
    }
}
