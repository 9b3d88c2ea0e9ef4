//! A writer of the demo: moves money, a transaction a transfer, with every put in its journal before it is sent.

use commit_log::slot::Sequence;
use commit_log::store::{CommitError, Committed, Store, StoreError};
use commit_log::transaction::Transaction;

use super::bank::{self, Balances, TransferRow};
use super::events::{Event, Resolution};
use super::journal::{Journal, Resume};
use super::notes::Notes;
use super::plan::{Account, Plan, Transfer, TransferId};
use super::teller::Teller;
use crate::arguments::DemoWriter;
use crate::command::Exit;
use crate::connect::builder;
use crate::failure::Failure;
use crate::location::{Location, Purpose};
use crate::resolve::{Resolved, resolve};

/// How often one transfer is run again after conflicts. Somebody commits at each conflict, so this is far more than all
/// other transfers of a usual demo together.
const MAX_RUNS: usize = 10_000;

/// Makes all of a writer's transfers that are not made yet.
///
/// # Errors
///
/// Why it cannot go on.
pub async fn run(task: &DemoWriter, location: &Location, teller: &Teller) -> Result<Exit, Failure> {
    let plan = Plan::new(task.place.shape());
    let (journal, entries) = Journal::open(&Journal::path(&task.place.directory, task.writer)).map_err(demo)?;
    let resume = Resume::from(&entries);
    let notes = Notes::new(journal, teller.clone(), resume.in_doubt);
    let builder = builder(location, Purpose::Read, teller.environment())?.before_put(notes.before_put());
    let store = builder.open_existing().await.map_err(|error| Failure::store(location, error))?;
    teller.tell(Event::Ready).map_err(demo)?;
    let writer = Writer { store, plan, notes, location: location.clone() };
    let mut next = resume.next_transfer;
    if let Some(doubt) = resume.in_doubt {
        // A killed writer's last put: nothing is sent before it is known what became of it.
        if writer.resolve(doubt.transaction, doubt.sequence).await? == Resolved::Landed {
            next = doubt.transfer + 1;
        }
    }
    for number in next..writer.plan.transfers_of(task.writer) {
        writer.transfer(TransferId { writer: task.writer, number }).await?;
    }
    writer.store.close().await;
    Ok(Exit::Well)
}

struct Writer {
    store: Store,
    plan: Plan,
    notes: Notes,
    location: Location,
}

impl Writer {
    /// Makes one transfer, however often others are faster.
    async fn transfer(&self, id: TransferId) -> Result<(), Failure> {
        self.notes.begin(id.number);
        let mut last = None;
        for _ in 0..MAX_RUNS {
            let transaction = self.prepared(id, self.plan.transfer(id)).await?;
            match self.store.commit(transaction).await {
                Ok(Committed { sequence, .. })
                | Err(CommitError::NotServed { sequence, .. } | CommitError::NotPublished { sequence, .. }) => {
                    return self.notes.acknowledged(sequence).map_err(demo);
                }
                Err(CommitError::Unknown { transaction, sequence, .. }) => {
                    self.notes.unknown(sequence).map_err(demo)?;
                    if self.resolve(transaction, sequence).await? == Resolved::Landed {
                        return Ok(());
                    }
                }
                Err(error) if may_run_again(&error) => {
                    self.notes.lost().map_err(demo)?;
                    last = Some(error);
                }
                Err(error) => return Err(Failure::store(&self.location, error)),
            }
        }
        Err(last.map_or(Failure::Interrupted, |error| Failure::store(&self.location, error)))
    }

    /// Reads the two balances and writes them and the transfer's own row.
    async fn prepared(&self, id: TransferId, transfer: Transfer) -> Result<Transaction, Failure> {
        let mut transaction = self.store.begin();
        let before = Balances {
            from: self.balance(&transaction, transfer.from).await?,
            to: self.balance(&transaction, transfer.to).await?,
        };
        let (after, moved) = bank::moved(transfer, before);
        let row = TransferRow { transaction: transaction.id(), from: transfer.from, to: transfer.to, moved };
        let rows =
            [(transfer.from.key(), after.from.to_string()), (transfer.to.key(), after.to.to_string()), (id.key(), row.value())];
        for (key, value) in rows {
            transaction.put(key, value).map_err(|error| Failure::store(&self.location, error))?;
        }
        Ok(transaction)
    }

    async fn balance(&self, transaction: &Transaction, account: Account) -> Result<u64, Failure> {
        let key = account.key();
        let value = transaction.get(key.as_bytes()).await.map_err(|error| Failure::store(&self.location, error))?;
        bank::balance(&key, value.as_deref().unwrap_or_default()).map_err(demo)
    }

    async fn resolve(&self, transaction: commit_log::identity::TransactionId, sequence: Sequence) -> Result<Resolved, Failure> {
        let resolved = resolve(&self.store, transaction, sequence).await;
        let resolved = resolved.map_err(|error| Failure::store(&self.location, error))?;
        let as_what = match resolved {
            Resolved::Landed => Resolution::Landed,
            Resolved::Never => Resolution::Never,
        };
        self.notes.resolved(sequence, as_what).map_err(demo)?;
        Ok(resolved)
    }
}

/// Whether nothing of it is committed and another run may be luckier: somebody was faster, or the log was retired past this
/// writer while it slept.
fn may_run_again(error: &CommitError) -> bool {
    let behind = matches!(error, CommitError::Store(StoreError::Behind));
    error.is_conflict() || behind || matches!(error, CommitError::OutOfTime { .. })
}

fn demo(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Demo(Box::new(error))
}
