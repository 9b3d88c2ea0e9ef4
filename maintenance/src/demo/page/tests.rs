use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::audit::{Finding, Verdict};
use super::super::events::Pages;
use super::super::history::Mark;
use super::super::plan::{Plan, Shape};
use super::*;

/// Writes the pages of this test there, to look at them.
const LOOK_AT: &str = "COMMIT_LOG_DEMO_PAGES";

/// A run as it might have been.
fn synthetic(writers: u16, transfers: u32) -> History {
    let shape = Shape { seed: 7, writers, accounts: 100, transfers };
    let plan = Plan::new(shape);
    let mut history = History::new(shape);
    let mut numbers = StdRng::seed_from_u64(11);
    let roles: Vec<_> = history.tallies.keys().copied().collect();
    roles.iter().for_each(|role| history.mark(Mark { at: 3, role: *role, what: What::Started }));
    let mut kills = plan.kills().to_vec();
    let mut absent: Vec<(Role, u64)> = Vec::new();
    let mut at = 40;
    for sequence in 2..u64::from(transfers) + 2 {
        at += numbers.random_range(1..=9);
        let lost = numbers.random_range(0..writers.min(3));
        let present: Vec<u16> =
            (0..writers).filter(|writer| !absent.iter().any(|(role, _)| *role == Role::Writer(*writer))).collect();
        let winner = present[numbers.random_range(0..present.len())];
        history.mark(Mark { at, role: Role::Writer(winner), what: What::Committed(sequence) });
        for loser in present.iter().filter(|writer| **writer != winner).take(usize::from(lost)) {
            history.mark(Mark { at: at + 1, role: Role::Writer(*loser), what: What::Lost(sequence) });
        }
        if sequence % 64 == 0 && !absent.iter().any(|(role, _)| *role == Role::Folder) {
            history.mark(Mark { at: at + 2, role: Role::Folder, what: What::Folded(sequence) });
        }
        if kills.first().is_some_and(|kill| u64::from(kill.after_commits) <= history.commits()) {
            let kill = kills.remove(0);
            history.mark(Mark { at, role: kill.role, what: What::Killed });
            absent.push((kill.role, at + u64::from(transfers) / 3));
        }
        absent.retain(|(role, until)| {
            if *until <= at {
                history.mark(Mark { at, role: *role, what: What::Started });
            }
            *until > at
        });
    }
    let commits = u64::from(transfers);
    history.mark(Mark { at: at + 30, role: Role::Folder, what: What::Folded(commits + 1) });
    history.pages = Some(Pages { retired: 41, begun: 79, through: Some(2_624) });
    history.verdict = Some(Verdict {
        accounts: 100,
        total_before: 100_000,
        total_after: 100_000,
        acknowledged: commits - 1,
        found: commits,
        unknown_landed: 1,
        unknown_never: 0,
        findings_count: 0,
        findings: Vec::new(),
    });
    history
}

fn heading() -> Heading {
    Heading { store: "commit-log-demo/store".into(), command: "commit-log demo --seed 7 --writers 4 --transfers 2000".into() }
}

fn page(name: &str, history: &History) -> String {
    let page = render(history, &heading());
    if let Some(directory) = std::env::var_os(LOOK_AT) {
        std::fs::write(std::path::Path::new(&directory).join(format!("{name}.html")), &page).unwrap();
    }
    page
}

#[test]
fn a_page_asks_nobody_for_anything() {
    for (name, writers, transfers) in [("small", 4, 100), ("usual", 4, 2_000), ("large", 4, 20_000), ("many", 16, 3_000)] {
        let page = page(name, &synthetic(writers, transfers));
        for outside in ["http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", "src=", "href="] {
            assert!(!page.contains(outside), "{name}: {outside}");
        }
        assert!(page.contains("Nothing was lost."));
    }
}

#[test]
fn a_page_grows_with_its_bounds_and_not_with_the_run() {
    let sizes = [2_000, 20_000, 60_000].map(|transfers| page("size", &synthetic(4, transfers)).len());
    assert!(sizes.iter().all(|size| *size < 320_000), "{sizes:?}");
    let large = page("large", &synthetic(4, 20_000));
    assert!(large.contains("The first 6,000 of 20,001 slots"));
    assert!(large.contains("Lanes count in columns of"));
}

#[test]
fn every_drawing_says_what_it_shows() {
    let page = page("usual", &synthetic(4, 2_000));
    let drawings = page.matches("role=\"img\"").count();
    assert_eq!(page.matches("<title>").count(), drawings + 1);
    assert!(page.contains("<desc>When writer 2 won a slot"));
    assert!(page.contains("killed at"));
    assert!(page.contains("<dt>pages of the log retired</dt><dd>41 of 79</dd>") && page.contains("Slots through 2,624 are"));
}

#[test]
fn what_is_off_is_said_and_escaped() {
    let mut history = synthetic(2, 100);
    let findings = vec![Finding::Missing { transfer: "<b>&\"'".into() }];
    history.verdict = Some(Verdict { findings_count: 2, findings, ..history.verdict.unwrap() });
    let page = render(&history, &Heading { store: "<i>".into(), command: "&".into() });
    assert!(page.contains("2 things are off."));
    assert!(page.contains("&lt;b&gt;&amp;&quot;&#39;") && !page.contains("<b>&"));
    assert!(page.contains("<code>&lt;i&gt;</code>") && page.contains("and 1 more"));
    history.verdict = None;
    assert!(self::page("unaudited", &history).contains("The run was not audited."));
}

#[test]
fn every_element_is_closed() {
    let page = page("small", &synthetic(4, 100));
    let void: BTreeSet<_> = ["meta", "path", "circle", "rect", "!doctype"].into();
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let name = tag.split(|c: char| c.is_whitespace() || c == '>').next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if !void.contains(name.trim_end_matches('/')) => open.push(name),
            None => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
