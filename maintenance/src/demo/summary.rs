//! What a demo says on the terminal before it begins and after it ended.

use std::fmt::Write;
use std::path::Path;

use super::Role;
use super::events::Pages;
use super::history::{History, What};
use super::plan::{Plan, Shape};
use crate::arguments::Demo;
use crate::location::Location;

/// What is about to happen.
pub fn beginning(shape: &Shape, location: &Location) -> String {
    let Shape { seed, writers, accounts, transfers } = shape;
    format!(
        "{transfers} transfers between {accounts} accounts by {writers} writers, one process folds, seed {seed}\n\
         store      {location}"
    )
}

/// The command that does the same again, somewhere else.
pub fn again(shape: &Shape, demo: &Demo) -> String {
    let Shape { seed, writers, accounts, transfers } = shape;
    format!(
        "commit-log demo --seed {seed} --writers {writers} --accounts {accounts} --transfers {transfers} --page-size {}",
        demo.page_size
    )
}

/// How it went.
pub fn end(history: &History, plan: &Plan, location: &Location, report: &Path, again: &str) -> String {
    let mut text = String::new();
    let working = history.marks.iter().filter(|mark| mark.role != Role::Auditor);
    let millis = working.map(|mark| mark.at).max().unwrap_or(0).max(1);
    let (commits, lost) = (history.commits(), history.tallies.values().map(|tally| tally.lost).sum::<u64>());
    let a_second = u128::from(commits) * 1_000 / u128::from(millis);
    let folds = history.tallies.get(&Role::Folder).map_or(0, |tally| tally.folds);
    let (head, folded) = (history.head, history.folded);
    let [whole, tenths] = [millis / 1_000, millis % 1_000 / 100];
    put(
        &mut text,
        format_args!("commits    {commits} in {whole}.{tenths} s, {a_second} a second; {lost} lost races, each tried again"),
    );
    put(&mut text, format_args!("killed     {}", killed(history, plan)));
    put(&mut text, format_args!("log        head {head}, folded through {folded} in {folds} folds"));
    if let Some(Pages { retired, begun, through }) = history.pages {
        let through = through.map_or(String::new(), |through| format!(", through slot {through}"));
        put(&mut text, format_args!("pages      {retired} of {begun} retired{through}"));
    }
    match &history.verdict {
        Some(verdict) => put(&mut text, format_args!("{verdict}")),
        None => put(&mut text, format_args!("audit      none")),
    }
    put(&mut text, format_args!("report     {}", report.display()));
    put(&mut text, format_args!("look       commit-log scan {location} --prefix account/"));
    let _ = write!(text, "again      {again}");
    text
}

/// Who was killed and when.
fn killed(history: &History, plan: &Plan) -> String {
    let mut all = Vec::new();
    let mut commits = 0;
    for mark in &history.marks {
        match mark.what {
            What::Committed(_) => commits += 1,
            What::Killed => all.push(format!("{} after {commits} commits of all", mark.role)),
            What::Started | What::Ended | What::Lost(_) | What::Unknown(_) | What::Resolved(..) | What::Folded(_) => {}
        }
    }
    match all.len() {
        0 => "nobody: all were done before".to_owned(),
        made if made < plan.kills().len() => format!("{}; the other was done before", all.join(", ")),
        _ => format!("{}; a new process took over from each", all.join(", ")),
    }
}

/// Writing to a string does not fail.
fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}
