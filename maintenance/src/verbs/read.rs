//! `get` and `scan`: rows as of now. Nothing is created.

use std::io::{self, BufWriter, IsTerminal, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use commit_log::environment::Environment;
use commit_log::store::Store;
use commit_log::view::{ScanOrder, View};

use crate::arguments::{Get, Scan};
use crate::command::Exit;
use crate::connect::existing;
use crate::failure::Failure;
use crate::location::Location;
use crate::rows::{Row, RowFormat, RowWriter, WriteError};

/// Prints the value of one key.
///
/// # Errors
///
/// A store that cannot be read, an output that takes no more.
pub async fn get(get: &Get, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let key = match get.key_base64 {
        true => Bytes::from(STANDARD.decode(&get.key).map_err(Failure::Base64)?),
        false => Bytes::from(get.key.clone()),
    };
    let store = existing(location, environment).await?;
    let found = async { latest(&store, location).await?.get(&key).await.map_err(|error| Failure::store(location, error)) };
    let found = found.await;
    store.close().await;
    let Some(value) = found? else {
        eprintln!("there is no row of this key");
        return Ok(Exit::Off);
    };
    match get.json {
        true => {
            let mut rows = RowWriter::new(io::stdout().lock(), RowFormat::JsonLines);
            rows.write(&Row { key, value })?;
            drop(rows.finish()?);
        }
        false => print(&value).map_err(|source| Failure::Output(WriteError::Finish { source }))?,
    }
    Ok(Exit::Well)
}

/// The value's bytes and nothing else; on a terminal the prompt comes below them.
fn print(value: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(value)?;
    if output.is_terminal() {
        output.write_all(b"\n")?;
    }
    output.flush()
}

/// Prints rows in the order of their keys.
///
/// # Errors
///
/// A store that cannot be read to the end, a row that the format cannot hold, an output that takes no more. Rows before it
/// are printed.
pub async fn scan(scan: &Scan, location: &Location, environment: &Environment) -> Result<Exit, Failure> {
    let store = existing(location, environment).await?;
    let printed = async { print_rows(scan, &latest(&store, location).await?, location).await };
    let printed = printed.await;
    store.close().await;
    printed.map(|()| Exit::Well)
}

async fn print_rows(scan: &Scan, view: &View, location: &Location) -> Result<(), Failure> {
    let order = if scan.reverse { ScanOrder::Descending } else { ScanOrder::Ascending };
    let format = if scan.json { RowFormat::JsonLines } else { RowFormat::Tsv };
    let mut found = view.scan_prefix(scan.prefix.as_deref().unwrap_or_default().as_bytes(), order);
    let mut rows = RowWriter::new(BufWriter::new(io::stdout()), format);
    while let Some((key, value)) = found.next().await.map_err(|error| Failure::store(location, error))? {
        rows.write(&Row { key, value })?;
    }
    drop(rows.finish()?);
    Ok(())
}

async fn latest(store: &Store, location: &Location) -> Result<View, Failure> {
    store.latest().await.map_err(|error| Failure::store(location, error))
}
