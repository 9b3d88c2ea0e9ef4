//! Where versions of the protocol differ. `Design::safe()` is the protocol; a naive version changes one thing.

/// What makes "created" a win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WinCheck {
    None,
    /// The ledger is read before the put.
    BeforePut,
    /// The ledger is read after the put was answered.
    AfterPut,
    /// The slot below is still there, read after the put was answered.
    PredecessorExists,
}

/// What makes another's id in the slot a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LossRule {
    SlotAlone,
    LedgerThenSlot,
    SlotThenLedger,
}

/// What a ledger says to an offer whose slot is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AbsentRule {
    /// Any ledger means "behind".
    LedgerThereIsBehind,
    /// Our id in the ledger means "won", otherwise "behind".
    LedgerNamesUs,
}

/// What "already exists", or a 409, is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExistsRule {
    Lost,
    ReadTheSlot,
}

/// Whether an offer knows its own object when it meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnObject {
    TakenForAnothers,
    Recognised,
}

/// What follows an offer that ended unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AfterUnknown {
    ReofferedAtTheNextSequence,
    OutcomeFirst,
}

/// At which sequence a commit is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OfferAt {
    /// A number is minted past the next one.
    FurtherAhead,
    HeadPlusOne,
}

/// What follows a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AfterLoss {
    /// Offered at the next sequence with the head it was prepared against.
    OfferedAsItIs,
    PreparedAgain,
}

/// The reads of `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OutcomeOrder {
    /// A slot that is there decides; the ledger is read only when it is absent.
    LedgerOnlyIfAbsent,
    LedgerThenSlot,
    SlotThenLedger,
}

/// Whether a filler that was created is judged like any offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FillerCheck {
    None,
    AsAnOffer,
}

/// Which ledger is read, and when, before a batch of slots is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BatchCheck {
    None,
    /// The lowest slot's page, before the reads of the batch.
    Before,
    /// The lowest slot's page, after the last read of the batch.
    LowestPageAfter,
    /// The page of the last slot to be believed, after the last read.
    LastPage,
    /// Each page of the batch, after the last read.
    EveryPage,
}

/// Whether a slot must name the one below it as its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChainCheck {
    Off,
    On,
}

/// What a slot missing below one that is there means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HoleRule {
    ReportedAtOnce,
    /// A read of the missing slot itself, then the ledger.
    ReadDirectly,
}

/// When a broken chain is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CorruptionReport {
    BeforeLedger,
    AfterLedger,
}

/// What proves that an absent `head + 1` is the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EndRule {
    AbsentSlot,
    AbsentSlotThenLedger,
}

/// In which order ledgers appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RetireOrder {
    Any,
    Ascending,
}

/// What must be covered for a page to retire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RetireWhen {
    FirstSlotCovered,
    LastSlotCovered,
}

/// What a collector waits for before it deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeleteOrder {
    DeletesFirst,
    LedgerUnawaited,
    /// "Already exists", or a 409, counts as having the ledger.
    OnAlreadyExists,
    LedgerReadBackFirst,
}

/// What the holder may do in place of the win check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HolderCheck {
    /// It reads the ledger like everyone.
    AsEveryone,
    /// It alone retires and nobody can take the store: it skips the check.
    SoleRetirer,
    /// It skips the check while it has not heard of a take.
    BelievesUnfenced,
    /// It looks whether it is fenced before the put.
    FenceBeforePut,
    /// It looks whether it is fenced after the put was answered.
    FenceAfterPut,
}

/// One version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Design {
    pub(crate) win_check: WinCheck,
    pub(crate) loss: LossRule,
    pub(crate) absent: AbsentRule,
    pub(crate) exists: ExistsRule,
    pub(crate) own_object: OwnObject,
    pub(crate) offer_at: OfferAt,
    pub(crate) after_unknown: AfterUnknown,
    pub(crate) after_loss: AfterLoss,
    pub(crate) outcome: OutcomeOrder,
    pub(crate) filler: FillerCheck,
    pub(crate) batch: BatchCheck,
    pub(crate) chain: ChainCheck,
    pub(crate) hole: HoleRule,
    pub(crate) corruption: CorruptionReport,
    pub(crate) end: EndRule,
    pub(crate) retire_order: RetireOrder,
    pub(crate) retire_when: RetireWhen,
    pub(crate) delete_order: DeleteOrder,
    pub(crate) holder: HolderCheck,
}

impl Design {
    /// The protocol as it stands.
    pub(crate) const fn safe() -> Self {
        Self {
            win_check: WinCheck::AfterPut,
            loss: LossRule::SlotThenLedger,
            absent: AbsentRule::LedgerNamesUs,
            exists: ExistsRule::ReadTheSlot,
            own_object: OwnObject::Recognised,
            offer_at: OfferAt::HeadPlusOne,
            after_unknown: AfterUnknown::OutcomeFirst,
            after_loss: AfterLoss::PreparedAgain,
            outcome: OutcomeOrder::SlotThenLedger,
            filler: FillerCheck::AsAnOffer,
            batch: BatchCheck::LowestPageAfter,
            chain: ChainCheck::On,
            hole: HoleRule::ReadDirectly,
            corruption: CorruptionReport::AfterLedger,
            end: EndRule::AbsentSlotThenLedger,
            retire_order: RetireOrder::Ascending,
            retire_when: RetireWhen::LastSlotCovered,
            delete_order: DeleteOrder::LedgerReadBackFirst,
            holder: HolderCheck::AsEveryone,
        }
    }
}
