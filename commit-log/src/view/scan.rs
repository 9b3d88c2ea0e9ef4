//! A scan: rows in memory, layer over layer, merged with those of the base, lazily and in either order.

use std::sync::Arc;

use bytes::Bytes;
use slatedb::DbIterator;

use super::base::Base;
use super::error::ReadError;
use super::overlay::Layer;
use super::range::{KeyRange, ScanOrder};

/// A scan of a view. It holds what it reads, so the view may be dropped, and keeps its base open.
pub struct Scan {
    range: KeyRange,
    order: ScanOrder,
    reserved_key: Bytes,
    layers: Vec<Cursor>,
    base: BaseRows,
    base_row: Option<(Bytes, Bytes)>,
}

/// A place in a layer.
struct Cursor {
    layer: Box<dyn Layer>,
    row: Option<(Bytes, Option<Bytes>)>,
}

impl Cursor {
    /// Takes the row at the cursor if it has `key`, and moves on.
    fn take(&mut self, key: &Bytes, range: &KeyRange, order: ScanOrder) -> Option<Option<Bytes>> {
        let (_, value) = self.row.take_if(|(found, _)| found == key)?;
        self.row = self.layer.first(range, order, Some(key));
        Some(value)
    }
}

/// Where the base's side of a scan stands.
enum BaseRows {
    Unopened(Arc<Base>),
    Open { base: Arc<Base>, rows: Box<DbIterator> },
    Exhausted,
    Failed(ReadError),
}

impl Scan {
    /// Scans `range` of `base` under `layers`, the topmost first. No request before the first row is asked for.
    pub(crate) fn new(
        base: Arc<Base>,
        layers: Vec<Box<dyn Layer>>,
        range: KeyRange,
        order: ScanOrder,
        reserved_key: Bytes,
    ) -> Scan {
        let at_start = |layer: Box<dyn Layer>| {
            let row = if range.is_empty() { None } else { layer.first(&range, order, None) };
            Cursor { layer, row }
        };
        let layers = layers.into_iter().map(at_start).collect();
        let base = if range.is_empty() { BaseRows::Exhausted } else { BaseRows::Unopened(base) };
        Scan { range, order, reserved_key, layers, base, base_row: None }
    }

    /// The next row, `None` after the last one.
    ///
    /// # Errors
    ///
    /// See [`ReadError`]. A scan that failed fails again at every further call; it never ends early as if there were no
    /// more rows. A call that was dropped before it answered may have skipped rows, so all later ones fail with
    /// [`ReadError::Interrupted`] unless the base had nothing left to say.
    pub async fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, ReadError> {
        loop {
            self.fill_base_row().await?;
            let Some((key, value)) = self.take_first() else { return Ok(None) };
            match value {
                Some(value) if key != self.reserved_key => return Ok(Some((key, value))),
                // A long run of deletes is no reason to keep the thread.
                _ => tokio::task::coop::consume_budget().await,
            }
        }
    }

    pub(crate) fn range(&self) -> &KeyRange {
        &self.range
    }

    pub(crate) fn order(&self) -> ScanOrder {
        self.order
    }

    /// Takes the first of all rows. The topmost layer that has its key decides, and all others move past it.
    fn take_first(&mut self) -> Option<(Bytes, Option<Bytes>)> {
        let in_layers = self.layers.iter().filter_map(|cursor| cursor.row.as_ref().map(|(key, _)| key));
        let keys = in_layers.chain(self.base_row.as_ref().map(|(key, _)| key));
        let key = match self.order {
            ScanOrder::Ascending => keys.min(),
            ScanOrder::Descending => keys.max(),
        }?;
        let key = key.clone();
        let mut decided = None;
        for cursor in &mut self.layers {
            let value = cursor.take(&key, &self.range, self.order);
            decided = decided.or(value);
        }
        let in_base = self.base_row.take_if(|(found, _)| *found == key).map(|(_, value)| Some(value));
        Some((key, decided.or(in_base).flatten()))
    }

    async fn fill_base_row(&mut self) -> Result<(), ReadError> {
        if self.base_row.is_some() {
            return Ok(());
        }
        // SUBTLE: what stands here while a call is under way is what the next call finds if this one is dropped.
        let before = std::mem::replace(&mut self.base, BaseRows::Failed(ReadError::Interrupted));
        match advance(before, &self.range, self.order).await {
            Ok((after, row)) => {
                self.base = after;
                self.base_row = row;
                Ok(())
            }
            Err(error) => {
                self.base = BaseRows::Failed(error.clone());
                Err(error)
            }
        }
    }
}

async fn advance(rows: BaseRows, range: &KeyRange, order: ScanOrder) -> Result<(BaseRows, Option<(Bytes, Bytes)>), ReadError> {
    let (base, mut rows) = match rows {
        BaseRows::Unopened(base) => match base.scan(range, order).await? {
            Some(rows) => (base, Box::new(rows)),
            None => return Ok((BaseRows::Exhausted, None)),
        },
        BaseRows::Open { base, rows } => (base, rows),
        BaseRows::Exhausted => return Ok((BaseRows::Exhausted, None)),
        BaseRows::Failed(error) => return Err(error),
    };
    match base.next_row(&mut rows).await? {
        Some(row) => Ok((BaseRows::Open { base, rows }, Some((row.key, row.value)))),
        None => Ok((BaseRows::Exhausted, None)),
    }
}
