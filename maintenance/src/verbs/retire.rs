//! `retire`: the pages of a store's log that nothing needs go.

use std::fmt;
use std::time::Duration;

use commit_log::environment::Environment;
use commit_log::record::AdoptionRecord;
use commit_log::retire::{RetireError, RetireMode, RetireOptions, Retired};
use commit_log::slot::Page;
use commit_log::store::Store;
use serde::Serialize;

use crate::arguments::Retire as Asked;
use crate::command::Exit;
use crate::connect::existing;
use crate::failure::Failure;
use crate::location::Location;

/// How many passes a run makes at most. A pass retires up to 256 pages, so these are far more than a log has; and a run beside
/// writers that fill pages as fast as pages go ends all the same.
const MAX_PASSES: usize = 1_000;

/// What a run did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The store, as it may be shown.
    pub store: String,
    /// Whether this only says what would go.
    pub dry_run: bool,
    /// What went. `None` when nothing did.
    pub retired: Option<Pages>,
    /// Names that were deleted in pages retired earlier: created again by offers that slept, or left by a run that was killed.
    pub swept: u64,
    /// The lowest page that stays.
    pub first_page: u64,
    /// Pages that stay though nothing needs them: too young, or left to the next run.
    pub later: Option<Pages>,
}

/// Pages, the last one included, and their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// The first page.
    pub first: u64,
    /// The last page.
    pub last: u64,
    /// The first slot of the first page.
    pub first_slot: u64,
    /// The last slot of the last page.
    pub last_slot: u64,
}

/// Retires until nothing more goes, and prints what went.
///
/// # Errors
///
/// Why it ended early. What went until then stays gone, and another run goes on from there.
pub async fn retire(asked: &Asked, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let store = existing(location, environment).await?;
    let options = RetireOptions { retain_pages: asked.retain_pages, min_age: Duration::from_secs(asked.min_age) };
    let mode = if asked.dry_run { RetireMode::DryRun } else { RetireMode::Retire };
    let retired = passes(&store, &options, mode).await;
    store.close().await;
    let retired = retired.map_err(|error| Failure::store(location, error))?;
    let report = Report::new(location.to_string(), store.log().record(), mode, &retired);
    match asked.json {
        true => println!("{}", serde_json::to_string(&report).map_err(|error| Failure::Demo(Box::new(error)))?),
        false => println!("{report}"),
    }
    Ok(Exit::Well)
}

/// Passes until one retires nothing more; of a dry run one, since it moves nothing.
async fn passes(store: &Store, options: &RetireOptions, mode: RetireMode) -> Result<Retired, RetireError> {
    let mut all = store.retire(options, mode).await?;
    let mut done = mode == RetireMode::DryRun || all.pages.is_empty();
    for _ in 1..MAX_PASSES {
        if done {
            break;
        }
        let Retired { pages, swept, first_kept } = store.retire(options, mode).await?;
        done = pages.is_empty();
        all = Retired { pages: all.pages.start..pages.end, swept: all.swept + swept, first_kept };
    }
    Ok(all)
}

impl Report {
    fn new(store: String, record: &AdoptionRecord, mode: RetireMode, retired: &Retired) -> Report {
        let Retired { pages, swept, first_kept } = retired;
        Report {
            store,
            dry_run: mode == RetireMode::DryRun,
            retired: Pages::of(record, pages.start, pages.end),
            swept: *swept,
            first_page: pages.end.get(),
            later: Pages::of(record, pages.end, *first_kept),
        }
    }
}

impl Pages {
    /// The pages from `first` to before `end`. `None` when there is none.
    fn of(record: &AdoptionRecord, first: Page, end: Page) -> Option<Pages> {
        let last = end.previous().filter(|last| *last >= first)?;
        let first_slot = *record.page_size.sequences(first)?.start();
        let last_slot = *record.page_size.sequences(last)?.end();
        let first_slot = first_slot.max(record.origin);
        Some(Pages { first: first.get(), last: last.get(), first_slot: first_slot.get(), last_slot: last_slot.get() })
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pages { first, last, first_slot, last_slot } = self;
        match first == last {
            true => write!(f, "page {first}, slots {first_slot}–{last_slot}"),
            false => write!(f, "pages {first}–{last}, slots {first_slot}–{last_slot}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { store, dry_run, retired, swept, first_page, later } = self;
        let pages = retired.map_or("nothing".to_owned(), |pages| pages.to_string());
        let [retired, swept_as, stays] = match dry_run {
            true => ["would retire", "would sweep", "would stay"],
            false => ["retired", "swept", "stays"],
        };
        writeln!(f, "store           {store}")?;
        writeln!(f, "{retired:<16}{pages}")?;
        let names = if *swept == 1 { "name" } else { "names" };
        writeln!(f, "{swept_as:<16}{swept} {names} in pages that were retired before")?;
        write!(f, "{stays:<16}everything from page {first_page} on")?;
        if let Some(later) = later {
            write!(f, "\nlater           {later}: not needed, but too young or left to the next run")?;
        }
        if *dry_run {
            f.write_str("\ndry run         nothing was written, nothing was deleted")?;
        }
        Ok(())
    }
}
