//! The auditor of the demo: a fresh process that opens the store afresh and counts.

use std::collections::BTreeMap;

use commit_log::error::Unavailable;
use commit_log::log::Outcome;
use commit_log::record::AdoptionRecord;
use commit_log::store::Store;
use commit_log::view::{ScanOrder, View};

use super::audit::{Answer, Evidence, audit, doubtful};
use super::bank::{self, TransferRow};
use super::events::{Event, Pages};
use super::journal::{self, Journal};
use super::plan::{Account, Plan, TransferId};
use super::teller::Teller;
use crate::arguments::DemoPlace;
use crate::command::Exit;
use crate::connect::existing;
use crate::failure::Failure;
use crate::location::Location;
use crate::pages::first_page;

/// Audits, and tells the verdict.
///
/// # Errors
///
/// What cannot even be counted.
pub async fn run(place: &DemoPlace, location: &Location, teller: &Teller) -> Result<Exit, Failure> {
    let plan = Plan::new(place.shape());
    let journals = (0..place.writers).map(|writer| journal::read(&Journal::path(&place.directory, writer)));
    let journals = journals.collect::<Result<Vec<_>, _>>().map_err(demo)?;
    let store = existing(location, teller.environment()).await?;
    let view = store.latest().await.map_err(|error| Failure::store(location, error))?;
    let balances =
        rows(&view, "account/", location, |key, value| Ok(Account::from_key(key).zip(Some(bank::balance(key, value)?))));
    let balances = balances.await?;
    let transfers = rows(&view, "transfer/", location, |key, value| {
        Ok(TransferId::from_key(key).zip(Some(TransferRow::parse(key, value)?)))
    });
    let transfers = transfers.await?;
    let mut answers = BTreeMap::new();
    for (transaction, sequence) in journals.iter().flat_map(|journal| doubtful(journal)) {
        answers.insert((transaction, sequence), ask(&store, transaction, sequence, location).await?);
    }
    let evidence = Evidence { plan: &plan, journals: &journals, answers: &answers, balances: &balances, transfers: &transfers };
    let verdict = audit(&evidence);
    let pages = pages(&store, &view).await;
    store.close().await;
    teller.tell(Event::Retired(pages.map_err(|error| Failure::store(location, error))?)).map_err(demo)?;
    let exit = if verdict.is_clean() { Exit::Well } else { Exit::Off };
    teller.tell(Event::Audited(Box::new(verdict))).map_err(demo)?;
    Ok(exit)
}

/// How much of the log is retired. Nobody retires any more: the folder ended before the auditor began.
async fn pages(store: &Store, view: &View) -> Result<Pages, Unavailable> {
    let AdoptionRecord { page_size, origin, .. } = *store.log().record();
    let (first, origin) = (first_page(store).await?, page_size.page_of(origin));
    let begun = view.head().map_or(0, |head| page_size.page_of(head).next().get() - origin.get());
    let last_retired = first.previous().filter(|last| *last >= origin).and_then(|last| page_size.sequences(last));
    Ok(Pages { retired: first.get() - origin.get(), begun, through: last_retired.map(|last| last.end().get()) })
}

/// The rows that begin with `prefix`. A key that no demo writes is an error, as a bad value is.
async fn rows<K: Ord, V>(
    view: &View,
    prefix: &'static str,
    location: &Location,
    read: impl Fn(&str, &[u8]) -> Result<Option<(K, V)>, bank::BadRow>,
) -> Result<BTreeMap<K, V>, Failure> {
    let mut all = BTreeMap::new();
    let mut scan = view.scan_prefix(prefix.as_bytes(), ScanOrder::Ascending);
    while let Some((key, value)) = scan.next().await.map_err(|error| Failure::store(location, error))? {
        let key = String::from_utf8_lossy(&key).into_owned();
        let row = read(&key, &value).map_err(demo)?;
        let bad = || bank::BadRow { key: key.clone(), expected: "a key of a demo", actual: value.to_vec() };
        let (key, value) = row.ok_or_else(bad).map_err(demo)?;
        all.insert(key, value);
    }
    Ok(all)
}

async fn ask(
    store: &Store,
    transaction: commit_log::identity::TransactionId,
    sequence: commit_log::slot::Sequence,
    location: &Location,
) -> Result<Answer, Failure> {
    let outcome = store.outcome(transaction, sequence).await.map_err(|error| Failure::store(location, error))?;
    Ok(match outcome {
        Outcome::Landed => Answer::Landed,
        Outcome::Never => Answer::Never,
        Outcome::Open => Answer::Open,
    })
}

fn demo(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Demo(Box::new(error))
}
