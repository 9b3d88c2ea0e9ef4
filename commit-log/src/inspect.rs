//! The embedder's own check of what a slot says, before it is offered and before it is folded.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::envelope::{Slot, SlotKind, Write};
use crate::identity::TransactionId;
use crate::slot::Sequence;

/// What a slot says, or what a commit would have it say. Borrowed: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Its place in the log.
    pub sequence: Sequence,
    /// What it is for.
    pub kind: SlotKind,
    /// The transactions that it carries.
    pub members: &'a [TransactionId],
    /// The head that they were validated against.
    pub validated_head: &'a Bytes,
    /// What they change.
    pub changes_made: &'a Bytes,
    /// Its rows.
    pub writes: &'a [Write],
}

impl<'a> From<&'a Slot> for Content<'a> {
    fn from(slot: &'a Slot) -> Content<'a> {
        let envelope = slot.envelope();
        Content {
            sequence: envelope.sequence,
            kind: envelope.kind,
            members: &envelope.members,
            validated_head: &envelope.validated_head,
            changes_made: &envelope.changes_made,
            writes: &envelope.writes,
        }
    }
}

/// Why the embedder refuses a slot, in its own words.
pub type Refusal = Arc<dyn Error + Send + Sync>;

type Check = dyn Fn(&Content<'_>) -> Result<(), Refusal> + Send + Sync;

/// Checks what slots say. By default everything passes.
///
/// - A commit of this process that it refuses is not offered.
/// - A slot that landed and is refused is not folded, and nothing after it is: it is corruption, for whoever put it there had
///   another idea of what a slot may say. So it must refuse the same slots in every process, whenever it is asked.
#[derive(Clone, Default)]
pub struct Inspect(Option<Arc<Check>>);

impl Inspect {
    /// Checks every slot with `check`, which does no I/O.
    pub fn with(check: impl Fn(&Content<'_>) -> Result<(), Refusal> + Send + Sync + 'static) -> Inspect {
        Inspect(Some(Arc::new(check)))
    }

    /// Whether everything passes.
    pub(crate) fn passes_all(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn check(&self, content: &Content<'_>) -> Result<(), Refusal> {
        self.0.as_ref().map_or(Ok(()), |check| check(content))
    }
}

impl fmt::Debug for Inspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.passes_all() { "Inspect nothing" } else { "Inspect" })
    }
}
