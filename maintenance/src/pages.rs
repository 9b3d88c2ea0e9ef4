//! Which pages of a store's log are retired, by the ledgers in its bucket.

use commit_log::bucket::ObjectName;
use commit_log::error::Unavailable;
use commit_log::slot::Page;
use commit_log::store::Store;

/// The lowest page that is not retired: pages retire in ascending order, so the one after the last ledger. One listing of the
/// ledgers' names, which is one request for every thousand retired pages.
///
/// # Errors
///
/// A failed listing, never fewer pages.
pub async fn first_page(store: &Store) -> Result<Page, Unavailable> {
    let (bucket, record) = (store.log().bucket(), store.log().record());
    let origin = record.page_size.page_of(record.origin);
    let ledgers = bucket.list_from(ObjectName::Ledger(record.log, origin), &bucket.deadline()).await?;
    Ok(ledgers.iter().filter_map(|name| Page::from_name(name)).max().map_or(origin, Page::next))
}
