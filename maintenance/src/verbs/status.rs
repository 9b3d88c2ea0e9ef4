//! `status`: where a store stands.

use std::fmt;

use commit_log::bucket::{Found, ObjectName};
use commit_log::environment::Environment;
use commit_log::record::{AdoptionRecord, TakeRecord};
use commit_log::slot::Sequence;
use commit_log::store::Store;
use serde::Serialize;

use crate::arguments::Status as Asked;
use crate::command::Exit;
use crate::connect::existing;
use crate::failure::Failure;
use crate::location::Location;
use crate::pages::first_page;

/// Where a store stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The store, as it may be shown.
    pub store: String,
    /// The log's identity.
    pub log: String,
    /// The log's first slot.
    pub origin: u64,
    /// The log's last slot. `None` before its first.
    pub head: Option<u64>,
    /// The last slot that is in SlateDB's own files. `None` when none is.
    pub folded_through: Option<u64>,
    /// How many slots are past that.
    pub tail_slots: u64,
    /// How many bytes of rows they hold.
    pub tail_bytes: u64,
    /// How many slots a page of the log has.
    pub page_size: u32,
    /// The lowest page that is not retired.
    pub first_page: u64,
    /// The newest manifest. `None` when nobody ever held the store.
    pub manifest: Option<u64>,
    /// Who took the store last. `None` when nobody ever did.
    pub last_take: Option<Take>,
}

/// Who took a store last, to hold it. Whether that process still runs, nobody can tell from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Take {
    /// SlateDB's writer epoch.
    pub epoch: u64,
    /// When, by the taker's clock, in ms since the Unix epoch. `None` when its record is not there.
    pub at_millis: Option<u64>,
    /// How long ago that is by this machine's clock, in ms.
    pub ago_millis: Option<u64>,
}

/// Prints it.
///
/// # Errors
///
/// A store that cannot be read.
pub async fn status(asked: &Asked, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let store = existing(location, environment).await?;
    let found = look(&store, location, environment).await;
    store.close().await;
    let status = found?;
    match asked.json {
        true => println!("{}", serde_json::to_string(&status).map_err(|error| Failure::Demo(Box::new(error)))?),
        false => println!("{status}"),
    }
    Ok(Exit::Well)
}

async fn look(store: &Store, location: &Location, environment: &Environment) -> Result<Status, Failure> {
    let view = store.latest().await.map_err(|error| Failure::store(location, error))?;
    let AdoptionRecord { log, page_size, origin, .. } = store.log().record().clone();
    let covered = view.base().covered().filter(|covered| *covered >= origin);
    let before_origin = origin.previous();
    let first_page = first_page(store).await.map_err(|error| Failure::store(location, error))?;
    let last_take = match view.base().manifest().map(|manifest| manifest.writer_epoch()) {
        Some(epoch) => Some(take(store, location, environment, epoch).await?),
        None => None,
    };
    Ok(Status {
        store: location.to_string(),
        log: log.to_string(),
        origin: origin.get(),
        head: view.head().map(Sequence::get),
        folded_through: covered.map(Sequence::get),
        tail_slots: view.head().map_or(0, |head| head.above(covered.or(before_origin))),
        tail_bytes: view.overlay().bytes() as u64,
        page_size: page_size.get(),
        first_page: first_page.get(),
        manifest: view.base().manifest_id(),
        last_take,
    })
}

async fn take(store: &Store, location: &Location, environment: &Environment, epoch: u64) -> Result<Take, Failure> {
    let bucket = store.log().bucket();
    let name = ObjectName::Take(store.log().record().log, epoch);
    let record = bucket.read_decoded(name, &bucket.deadline(), |bytes| TakeRecord::decode(&bytes)).await;
    let at_millis = match record.map_err(|error| Failure::store(location, error))? {
        Found::Present(record) => Some(record.taken_millis),
        Found::Absent => None,
        Found::Damaged(corruption) => return Err(Failure::store(location, corruption)),
    };
    let ago_millis = at_millis.map(|at| environment.now_millis().saturating_sub(at));
    Ok(Take { epoch, at_millis, ago_millis })
}

impl Status {
    fn retired(&self) -> &'static str {
        match self.first_page > (self.origin - 1) / u64::from(self.page_size) {
            true => "those below are retired",
            false => "none is retired yet",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: Option<u64>| number.map_or("none yet".to_owned(), |number| number.to_string());
        writeln!(f, "store           {}", self.store)?;
        writeln!(f, "log             {}, first slot {}, {} slots a page", self.log, self.origin, self.page_size)?;
        writeln!(f, "head            {}", number(self.head))?;
        writeln!(f, "folded through  {}", number(self.folded_through))?;
        writeln!(f, "tail            {} slots not folded yet, {} B of rows", self.tail_slots, self.tail_bytes)?;
        writeln!(f, "first page      {}, {}", self.first_page, self.retired())?;
        writeln!(f, "manifest        {}", number(self.manifest))?;
        match self.last_take {
            None => f.write_str("last held       by nobody yet"),
            Some(Take { epoch, ago_millis: Some(ago), .. }) => {
                write!(f, "last held       with epoch {epoch}, taken {} s ago", ago / 1_000)
            }
            Some(Take { epoch, ago_millis: None, .. }) => write!(f, "last held       with epoch {epoch}"),
        }
    }
}
