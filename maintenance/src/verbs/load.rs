//! `load`: the rows of a file, committed by several processes at once, and folded into the store.

pub mod share;

use std::fs::File;
use std::io::{self, BufReader, IsTerminal};

use commit_log::environment::Environment;
use commit_log::holder::{HoldError, Holder};
use commit_log::store::Store;
use commit_log::take::TakeError;
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{Load, LoadWriter, Task};
use crate::command::Exit;
use crate::connect::checked_builder;
use crate::demo::Role;
use crate::demo::children::command;
use crate::demo::events::Event;
use crate::demo::folder::take;
use crate::demo::supervise::{Happening, Supervisor};
use crate::failure::Failure;
use crate::location::{Location, Purpose};
use crate::rows::{RowFormat, RowReader};

/// How often a take of the store is tried that another process disturbed.
const MAX_TAKES: usize = 5;

/// How much time passes between two lines of progress where there is no terminal.
const PLAIN_EVERY_MILLIS: u64 = 2_000;

/// Loads.
///
/// # Errors
///
/// A file that is no rows, found before anything is committed; a store that cannot be written; a writer that cannot go on.
/// The same load again ends in the same rows.
pub async fn load(load: &Load, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let expected = count(load)?;
    let builder = checked_builder(location, Purpose::Write, environment).await?;
    let store = builder.open().await.map_err(|error| Failure::store(location, error))?;
    let began_at = environment.now_millis();
    let holder = match take(&store, MAX_TAKES).await {
        Ok(holder) => Some(holder),
        Err(HoldError::Fenced | HoldError::Take(TakeError::Fenced | TakeError::OpenRaced)) => None,
        Err(error) => return Err(Failure::store(location, error)),
    };
    let loaded = commit(load, location, expected, environment).await?;
    let millis = environment.now_millis().saturating_sub(began_at).max(1);
    if loaded != expected {
        return Err(Failure::FileChanged { path: load.from.clone(), expected, loaded });
    }
    let folded = fold(holder, &store, location).await?;
    let head = store.latest().await.map_err(|error| Failure::store(location, error))?.head();
    store.close().await;
    let a_second = u128::from(loaded) * 1_000 / u128::from(millis);
    let [whole, tenths] = [millis / 1_000, millis % 1_000 / 100];
    println!("{loaded} rows committed by {} writers in {whole}.{tenths} s, {a_second} rows/s", load.writers);
    println!("head {}, {folded}", head.map_or(0, |head| head.get()));
    Ok(Exit::Well)
}

/// Reads the whole file once: what is wrong with it is said before anything is committed.
fn count(load: &Load) -> Result<u64, Failure> {
    let mut rows = 0;
    for row in rows_of(load)? {
        row?;
        rows += 1;
    }
    Ok(rows)
}

/// The rows of the file, in its order.
fn rows_of(load: &Load) -> Result<RowReader<BufReader<File>>, Failure> {
    let failed = |source| Failure::File { path: load.from.clone(), doing: "opening", source };
    let file = File::open(&load.from).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::NotAFile { path: load.from.clone() });
    }
    let format = if load.json { RowFormat::JsonLines } else { RowFormat::Tsv };
    Ok(RowReader::new(BufReader::new(file), format, load.from.display().to_string()))
}

/// Runs the writers to their ends. Tells how many rows they committed.
async fn commit(load: &Load, location: &Location, expected: u64, environment: &Environment) -> Result<u64, Failure> {
    let from = std::path::absolute(&load.from).unwrap_or_else(|_| load.from.clone());
    let mut children = Supervisor::default();
    for share in 0..load.writers {
        let load = Load { store: location.address(), from: from.clone(), ..load.clone() };
        children.start(Role::Writer(share), command(&Task::LoadWriter(LoadWriter { share, load }))?)?;
    }
    let mut shares = Shares { loaded: vec![0; usize::from(load.writers)], why: vec![None; usize::from(load.writers)] };
    let mut progress = Progress::new(load, expected, environment);
    let ended = async {
        while let Some(happening) = children.next().await {
            let (role, happening) = happening?;
            shares.take_note(role, happening)?;
            progress.show(shares.loaded.iter().sum());
        }
        Ok(())
    };
    let ended = tokio::select! {
        ended = ended => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    progress.finish();
    children.end_all().await?;
    ended.map(|()| shares.loaded.iter().sum())
}

/// What the writers told.
struct Shares {
    loaded: Vec<u64>,
    why: Vec<Option<String>>,
}

impl Shares {
    fn take_note(&mut self, role: Role, happening: Happening) -> Result<(), Failure> {
        let at = match role {
            Role::Writer(share) => usize::from(share),
            Role::Folder | Role::Auditor => return Ok(()),
        };
        let (Some(loaded), Some(why)) = (self.loaded.get_mut(at), self.why.get_mut(at)) else { return Ok(()) };
        match happening {
            Happening::Told(line) => match line.event {
                Event::Loaded { rows } => *loaded = rows,
                Event::Failed { why: said } => *why = Some(said),
                Event::Ready
                | Event::Committed { .. }
                | Event::Lost { .. }
                | Event::Unknown { .. }
                | Event::Resolved { .. }
                | Event::Head { .. }
                | Event::Folded { .. }
                | Event::Retired(_)
                | Event::Audited(_)
                | Event::Done => {}
            },
            Happening::Ended { status, .. } if status.success() => {}
            Happening::Ended { status, complaint } => {
                let complaint = complaint.lines().last().map(str::to_owned);
                let why = why.take().or(complaint).unwrap_or_else(|| status.to_string());
                return Err(Failure::Ended { who: role.to_string(), why });
            }
        }
        Ok(())
    }
}

/// Folds the rest and gives the store back.
async fn fold(holder: Option<Holder>, store: &Store, location: &Location) -> Result<String, Failure> {
    let Some(holder) = holder else { return Ok("another process folds".to_owned()) };
    let folded = holder.folded();
    match holder.stop().await {
        Ok(()) => {
            let through = folded.borrow().flushed.map_or(0, |through| through.get());
            // The view of this process goes on with the files.
            store.look().await.map_err(|error| Failure::store(location, error))?;
            Ok(format!("folded through {through}"))
        }
        Err(HoldError::Fenced) => Ok("another process took the store and folds".to_owned()),
        Err(error) => Err(Failure::NotFolded { location: location.clone(), source: Box::new(error) }),
    }
}

/// What is seen while it goes on.
struct Progress<'e> {
    bar: ProgressBar,
    plain: Option<u64>,
    expected: u64,
    environment: &'e Environment,
}

impl Progress<'_> {
    fn new<'e>(load: &Load, expected: u64, environment: &'e Environment) -> Progress<'e> {
        let terminal = io::stderr().is_terminal();
        let bar = match terminal && !load.no_progress {
            true => ProgressBar::new(expected),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:40.cyan/dim}  {human_pos} of {human_len} rows, {per_sec}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━━─"));
        let plain = (!terminal && !load.no_progress).then(|| environment.now_millis() + PLAIN_EVERY_MILLIS);
        Progress { bar, plain, expected, environment }
    }

    fn show(&mut self, loaded: u64) {
        self.bar.set_position(loaded);
        let now = self.environment.now_millis();
        if let Some(next) = self.plain.filter(|next| *next <= now) {
            self.plain = Some(next.max(now - now % PLAIN_EVERY_MILLIS) + PLAIN_EVERY_MILLIS);
            eprintln!("{loaded} of {} rows", self.expected);
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
