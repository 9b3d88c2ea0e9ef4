//! What is typed on the command line: the verbs, their options, bounds, and the text a newcomer reads.

use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use commit_log::identity::TransactionId;
use commit_log::retire::RetireOptions;
use commit_log::slot::{PageSize, Sequence};

use crate::demo::plan::Shape;
use crate::location::Address;

/// The most writers of one run: each is a process, and a picture with more lanes says nothing.
pub const MAX_WRITERS: u16 = 64;

/// The most accounts of a demo: the audit reads each.
pub const MAX_ACCOUNTS: u32 = 100_000;

/// The most transfers of a demo: the audit holds each in memory.
pub const MAX_TRANSFERS: u32 = 1_000_000;

/// The most rows of a batch: far above what one slot of 16 MiB holds of sensible rows.
pub const MAX_BATCH: u32 = 1_000_000;

/// Several processes commit to one SlateDB store through a shared log in its bucket.
#[derive(Clone, Debug, Parser)]
#[command(name = "commit-log", version, subcommand_required = true, after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

const AFTER_HELP: &str = "\
A STORE is a directory or a URL: file:///data/store, s3://bucket/path, az://container/path, gs://bucket/path.
Credentials and options come from the environment (AWS_*, AZURE_*, GOOGLE_*), never from the URL.
`get`, `scan`, `status` and `outcome` create nothing (`outcome --close` may write one slot), nor does `retire --dry-run`.

Exit code: 0 all is well, 1 something is off (an audit's finding, an absent key, a failure), 2 wrong usage.

Begin with:  commit-log demo";

/// The verbs.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Show it: processes move money, some are killed, and an audit counts that nothing was lost
    Demo(Demo),
    /// Commit the rows of a file, by several processes at once
    Load(Load),
    /// Print the value of one key
    Get(Get),
    /// Print rows in the order of their keys
    Scan(Scan),
    /// Say where a store stands: its log's head, what is folded, who has it
    Status(Status),
    /// Say what became of a transaction whose commit ended as `unknown`
    Outcome(OutcomeOf),
    /// Hold a store: fold what others commit, flush and retire, until this process is told to end
    Hold(Hold),
    /// Fold a store once, if there is anything to fold and nobody else is at it
    Fold(Fold),
    /// Retire the pages of a store's log that nothing needs any more, as its holder does now and then
    Retire(Retire),
    /// A process of a demo or a load, started by its parent
    #[command(hide = true)]
    Child(Child),
}

/// `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Everything random follows from --seed: who moves what, and who is killed after how many commits.\n\
                        Needs no terminal. Ctrl-C ends every process it started.")]
pub struct Demo {
    /// Directory for the store, the writers' journals and the report; created if missing, refused if it holds a demo
    /// [default: commit-log-demo, or commit-log-demo-2 and so on where that is taken]
    pub directory: Option<PathBuf>,
    /// Put the store there instead of into DIRECTORY; journals and report stay in DIRECTORY
    #[arg(long, value_name = "URL", value_parser = address)]
    pub store: Option<Address>,
    /// Processes that commit. Another one folds, so 4 means five processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = writers())]
    pub writers: u16,
    /// Accounts, each beginning with 1,000. Fewer accounts make more conflicts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=i64::from(MAX_ACCOUNTS)))]
    pub accounts: u32,
    /// Transfers of all writers together, each one a transaction. A count and not a time, so that a seed fixes the run
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(20..=i64::from(MAX_TRANSFERS)))]
    pub transfers: u32,
    /// The number that everything random follows from. Drawn and printed when not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Slots in a page of the log. Small, so that a demo sees pages come and go; fixed when the store is created
    #[arg(long, value_name = "SLOTS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(PageSize::MAX)))]
    pub page_size: u32,
    /// Where to write the report, one HTML page that needs nothing else [default: DIRECTORY/report.html]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print no progress, only the summary
    #[arg(long)]
    pub no_progress: bool,
}

/// `load`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Load {
    /// The store; a directory is created if missing
    #[arg(value_parser = address)]
    pub store: Address,
    /// The file: one row a line, key and value separated by the first tab
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Rows that one transaction commits. More rows make fewer requests, and more work to repeat after a lost race
    #[arg(long, value_name = "ROWS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BATCH)))]
    pub batch: u32,
    /// Processes that commit. Rows are dealt by key, so rows of one key keep the file's order
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = writers())]
    pub writers: u16,
    /// The file holds JSON lines: `key` or `key_base64`, `value` or `value_base64`
    #[arg(long)]
    pub json: bool,
    /// Print no progress, only the summary
    #[arg(long)]
    pub no_progress: bool,
}

/// `get`.
#[derive(Clone, Debug, Args)]
pub struct Get {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
    /// The key
    pub key: String,
    /// Print the row as a JSON line, not the value's bytes alone
    #[arg(long)]
    pub json: bool,
    /// KEY is base64, for keys that are no text
    #[arg(long)]
    pub key_base64: bool,
}

/// `scan`.
#[derive(Clone, Debug, Args)]
pub struct Scan {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
    /// Only rows whose key begins with this [default: all rows]
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Last key first
    #[arg(long)]
    pub reverse: bool,
    /// Print JSON lines, which hold any row, instead of lines with a tab
    #[arg(long)]
    pub json: bool,
}

/// `status`.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
    /// Print one JSON object instead of lines for people
    #[arg(long)]
    pub json: bool,
}

/// `outcome`.
#[derive(Clone, Debug, Args)]
pub struct OutcomeOf {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
    /// The transaction, 32 hexadecimal digits, as the `unknown` error named it
    #[arg(value_parser = transaction)]
    pub transaction: TransactionId,
    /// The slot that it was sent to, as the `unknown` error named it
    #[arg(value_parser = sequence)]
    pub sequence: Sequence,
    /// If nothing landed there yet, make sure that nothing will: write an empty slot there
    #[arg(long)]
    pub close: bool,
}

/// `hold`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "One process at a time holds a store. When another takes it, this one follows, and takes it again when nobody folds.\n\
                        Ctrl-C or SIGTERM ends it: it folds what is left, flushes and gives the store back."
)]
pub struct Hold {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
    /// Publish what is folded: keep a checkpoint of this name that covers it, for readers of a fixed state
    #[arg(long, value_name = "NAME")]
    pub publish: Option<String>,
    /// For how many seconds such a checkpoint lives, unless it is renewed
    #[arg(long, value_name = "SECONDS", default_value_t = NonZeroU64::MIN.saturating_add(599), requires = "publish")]
    pub publish_for: NonZeroU64,
}

/// `fold`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Waits for somebody else who took the store lately, and leaves it alone if that one folds.")]
pub struct Fold {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
}

/// `retire`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Any process may retire, at any time, beside others, and be killed while it does: the next run goes on.\n\
                        What stays: what the store needs to be opened, what its checkpoints need, and what the options say."
)]
pub struct Retire {
    /// The store
    #[arg(value_parser = address)]
    pub store: Address,
    /// Only say what would go. Nothing is written and nothing is deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Pages that stay up to the last fold, the page of that fold included. The more stay, the fewer slow processes must
    /// start again from the store
    #[arg(long, value_name = "N", default_value_t = RetireOptions::default().retain_pages)]
    pub retain_pages: NonZeroU32,
    /// Keep a page until the newest slot is so much younger than the one after its last, by the store's own timestamps. The
    /// log's own least retention is kept in any case
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub min_age: u64,
    /// Print one JSON object instead of lines for people
    #[arg(long)]
    pub json: bool,
}

/// A child of a demo or a load. Its parent gives everything, so nothing has a default.
#[derive(Clone, Debug, Args)]
pub struct Child {
    /// What it does.
    #[command(subcommand)]
    pub task: Task,
}

/// What a child does.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Task {
    /// Moves money
    DemoWriter(DemoWriter),
    /// Folds what landed into the store
    DemoFolder(DemoPlace),
    /// Counts what is there
    DemoAuditor(DemoPlace),
    /// Commits its share of a file
    LoadWriter(LoadWriter),
}

/// What every child of a demo is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DemoPlace {
    /// The store
    #[arg(long, value_parser = address)]
    pub store: Address,
    /// The directory with the journals
    #[arg(long)]
    pub directory: PathBuf,
    /// When the demo began, in ms since the Unix epoch
    #[arg(long)]
    pub began_at: u64,
    /// The seed of the plan
    #[arg(long)]
    pub seed: u64,
    /// The writers of the plan
    #[arg(long)]
    pub writers: u16,
    /// The accounts of the plan
    #[arg(long)]
    pub accounts: u32,
    /// The transfers of the plan
    #[arg(long)]
    pub transfers: u32,
    /// Slots in a page
    #[arg(long)]
    pub page_size: NonZeroU32,
}

/// What a writer of a demo is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DemoWriter {
    /// Which writer it is
    #[arg(long)]
    pub writer: u16,
    /// Everything else
    #[command(flatten)]
    pub place: DemoPlace,
}

/// What a writer of a load is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct LoadWriter {
    /// Which writer it is
    #[arg(long)]
    pub share: u16,
    /// Everything else
    #[command(flatten)]
    pub load: Load,
}

impl DemoPlace {
    /// The shape of the plan.
    pub fn shape(&self) -> Shape {
        let DemoPlace { seed, writers, accounts, transfers, .. } = *self;
        Shape { seed, writers, accounts, transfers }
    }

    /// What the parent passes to a child that is told this.
    fn typed(&self) -> Vec<OsString> {
        let DemoPlace { store, directory, began_at, seed, writers, accounts, transfers, page_size } = self;
        let mut typed = vec!["--store".into(), store.as_typed().into(), "--directory".into(), directory.into()];
        let numbers = [
            ("--began-at", *began_at),
            ("--seed", *seed),
            ("--writers", u64::from(*writers)),
            ("--accounts", u64::from(*accounts)),
            ("--transfers", u64::from(*transfers)),
            ("--page-size", u64::from(page_size.get())),
        ];
        typed.extend(numbers.into_iter().flat_map(|(name, number)| [name.into(), number.to_string().into()]));
        typed
    }
}

impl Load {
    fn typed(&self) -> Vec<OsString> {
        let Load { store, from, batch, writers, json, no_progress } = self;
        let mut typed = vec![store.as_typed().into(), "--from".into(), from.into()];
        typed.extend(["--batch".into(), batch.to_string().into(), "--writers".into(), writers.to_string().into()]);
        let flags = [("--json", json), ("--no-progress", no_progress)];
        typed.extend(flags.into_iter().filter(|(_, given)| **given).map(|(name, _)| name.into()));
        typed
    }
}

impl Task {
    /// The arguments that start this very program as a child with this task.
    pub fn typed(&self) -> Vec<OsString> {
        let (name, rest) = match self {
            Task::DemoWriter(DemoWriter { writer, place }) => {
                ("demo-writer", [vec!["--writer".into(), writer.to_string().into()], place.typed()].concat())
            }
            Task::DemoFolder(place) => ("demo-folder", place.typed()),
            Task::DemoAuditor(place) => ("demo-auditor", place.typed()),
            Task::LoadWriter(LoadWriter { share, load }) => {
                ("load-writer", [vec!["--share".into(), share.to_string().into()], load.typed()].concat())
            }
        };
        [vec!["child".into(), name.into()], rest].concat()
    }
}

fn writers() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(MAX_WRITERS))
}

// SUBTLE: clap prints values that a parser refuses. This one refuses nothing, so a credential in a URL is not printed;
// `Location::parse` refuses later, redacted.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
fn address(text: &str) -> Result<Address, std::convert::Infallible> {
    Ok(Address::from(text))
}

fn transaction(text: &str) -> Result<TransactionId, &'static str> {
    TransactionId::parse(text).ok_or("expected 32 lower-case hexadecimal digits")
}

fn sequence(text: &str) -> Result<Sequence, &'static str> {
    text.parse().ok().and_then(Sequence::new).ok_or("expected the number of a slot, from 1")
}

#[cfg(test)]
mod tests;
