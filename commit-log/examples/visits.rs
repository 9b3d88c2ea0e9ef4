//! The example of the README, whole: a counter that two processes could count up at once.
//!
//! `cargo run --release --example visits`

use std::sync::Arc;

use commit_log::store::{BodyError, Store};
use object_store::memory::InMemory;

fn parse(value: &[u8]) -> u64 {
    String::from_utf8_lossy(value).parse().unwrap_or(0)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bucket = Arc::new(InMemory::new());
    // README: from here …
    let store = Store::builder("lake", bucket).open().await?;

    // Runs again when another process wrote what it read.
    store
        .transact(async |mut transaction| {
            let before = transaction.get(b"visits").await?.map_or(0, |value| parse(&value));
            transaction.put("visits", (before + 1).to_string())?;
            Ok::<_, BodyError>((transaction, ()))
        })
        .await?;

    let latest = store.latest().await?; // everything acknowledged before, by anybody
    store.fold().await?; // into SlateDB's own files: now, not only at every 1,024th commit
    // … to here.
    println!("visits: {}", latest.get(b"visits").await?.map_or(0, |value| parse(&value)));
    store.close().await;
    Ok(())
}
