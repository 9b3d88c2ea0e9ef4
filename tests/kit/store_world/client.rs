//! A client of one process: transfers, registers, audits, old views. It records what it does and what it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use commit_log::identity::TransactionId;
use commit_log::store::{BodyError, CommitError, Committed, StoreError, TransactError};
use commit_log::transaction::Transaction;
use commit_log::view::{ReadError, ScanOrder, View};
use futures::future::{Either, select};
use rand::RngExt;
use rand::rngs::StdRng;

use super::process::{Session, head};
use super::record::{Observation, Step, Told};
use super::rows::{self, Did};
use crate::linearizability::Action;

/// What a transaction is for.
#[derive(Clone, Debug)]
enum Deed {
    Transfer { from: u64, to: u64, amount: u64 },
    Write { register: u64, value: Option<Bytes> },
    Exchange { register: u64, value: Bytes },
    ScanRegisters { register: u64, value: Bytes },
    ScanAccounts,
}

/// Whether a transaction is run by the library or by its client.
#[derive(Clone, Copy, Debug)]
enum Form {
    Closure,
    Handle,
}

pub(super) struct Client {
    session: Session,
    random: StdRng,
    name: String,
    deeds: u32,
    kept: VecDeque<View>,
}

impl Client {
    pub(super) fn new(session: Session, number: u32) -> Client {
        let random = session.scene.draw.stream([session.who.process, session.who.run, 100 + number]);
        let name = format!("{}-{}-{number}", session.who.process, session.who.run);
        Client { session, random, name, deeds: 0, kept: VecDeque::new() }
    }

    /// One deed after another, until `left` are done by this client and those before it.
    pub(super) async fn work(mut self, left: Arc<Mutex<u32>>) {
        while *left.lock().unwrap() > 0 {
            let think = Duration::from_millis(self.random.random_range(1..200));
            self.session.scene.pause(think).await;
            if self.random.random_bool(0.06) {
                let patience = Duration::from_millis(self.random.random_range(1..150));
                let scene = self.session.scene.clone();
                if let Either::Right(_) = select(Box::pin(self.act()), Box::pin(scene.pause(patience))).await {
                    scene.record.count("given up");
                }
            } else {
                self.act().await;
            }
            let mut left = left.lock().unwrap();
            *left = left.saturating_sub(1);
        }
    }

    async fn act(&mut self) {
        self.deeds += 1;
        let register = self.random.random_range(0..rows::REGISTER_COUNT);
        let value = Bytes::from(format!("{}-{}", self.name, self.deeds));
        match self.random.random_range(0..100) {
            0..20 => {
                let from = self.random.random_range(0..rows::ACCOUNT_COUNT);
                let to = (from + self.random.random_range(1..rows::ACCOUNT_COUNT)) % rows::ACCOUNT_COUNT;
                let amount = self.random.random_range(1..20);
                self.run(Deed::Transfer { from, to, amount }).await;
            }
            20..30 => self.run(Deed::Write { register, value: Some(value) }).await,
            30..34 => self.run(Deed::Write { register, value: None }).await,
            34..50 => self.run(Deed::Exchange { register, value }).await,
            50..55 => self.run(Deed::ScanRegisters { register, value }).await,
            55..58 => self.run(Deed::ScanAccounts).await,
            58..78 => self.read_register(register).await,
            78..84 => drop(self.observe("audits", &self.session.view()).await),
            84..90 => self.audit_latest().await,
            90..94 => self.keep_view().await,
            _ => self.revisit().await,
        }
    }

    async fn run(&mut self, deed: Deed) {
        let form = if self.random.random_bool(0.5) { Form::Closure } else { Form::Handle };
        let call = match &deed {
            Deed::Write { register, .. } | Deed::Exchange { register, .. } | Deed::ScanRegisters { register, .. } => {
                Some(self.session.scene.record.called(&rows::register(*register)))
            }
            Deed::Transfer { .. } | Deed::ScanAccounts => None,
        };
        let job = Job { session: self.session.clone(), deed, call, name: format!("{}-{}", self.name, self.deeds) };
        let committed = match form {
            Form::Closure => job.by_closure().await,
            Form::Handle => job.by_handle().await,
        };
        if let (true, Some(call)) = (committed, call) {
            self.session.scene.record.answered(call);
        }
    }

    async fn read_register(&self, register: u64) {
        let record = &self.session.scene.record;
        let key = rows::register(register);
        let call = record.called(&key);
        let Some(view) = self.latest().await else { return };
        match view.get(&key).await {
            Ok(value) => {
                record.acts(call, Action::Read(value), None);
                record.answered(call);
            }
            Err(error) => note_read(&self.session, &error),
        }
    }

    async fn latest(&self) -> Option<View> {
        let record = &self.session.scene.record;
        let acknowledged = record.acknowledged();
        match self.session.store.latest().await {
            Ok(view) => {
                record.step(self.session.who, Step::Latest { acknowledged, head: head(&view) });
                Some(view)
            }
            Err(error) => {
                note_store(&self.session, &error);
                None
            }
        }
    }

    async fn audit_latest(&self) {
        if let Some(view) = self.latest().await {
            self.observe("latest audits", &view).await;
        }
    }

    async fn keep_view(&mut self) {
        let view = self.session.view();
        self.observe("audits", &view).await;
        self.kept.push_back(view);
        if self.kept.len() > 4 {
            self.kept.pop_front();
        }
    }

    async fn revisit(&self) {
        let Some(view) = self.kept.front() else { return };
        let rebased = view.base().manifest_id() < self.session.store.view().base().manifest_id();
        if self.observe("old views", view).await && rebased {
            self.session.scene.record.count("old views across rebases");
        }
    }

    /// Reads all of a view, in one order or the other, or the rows of one kind.
    async fn observe(&self, reader: &'static str, view: &View) -> bool {
        let turn = (u64::from(self.deeds) + head(view)) % 6;
        let prefix = match turn {
            0 => rows::ACCOUNTS,
            1 => rows::REGISTERS,
            2 => rows::DEEDS,
            _ => "",
        };
        let order = if turn.is_multiple_of(2) { ScanOrder::Ascending } else { ScanOrder::Descending };
        match read_all(view, prefix, order).await {
            Ok(rows) => {
                self.session.scene.record.observed(Observation { reader, head: head(view), prefix, rows });
                true
            }
            Err(error) => {
                note_read(&self.session, &error);
                false
            }
        }
    }
}

/// The rows of a view that begin with `prefix`, lowest key first.
pub(super) async fn read_all(view: &View, prefix: &str, order: ScanOrder) -> Result<Vec<(Bytes, Bytes)>, ReadError> {
    let mut scan = view.scan_prefix(prefix.as_bytes(), order);
    let mut rows = Vec::new();
    while let Some(row) = scan.next().await? {
        rows.push(row);
    }
    if order == ScanOrder::Descending {
        rows.reverse();
    }
    Ok(rows)
}

/// One transaction's work, which may be run several times.
#[derive(Clone)]
struct Job {
    session: Session,
    deed: Deed,
    call: Option<usize>,
    name: String,
}

impl Job {
    async fn by_closure(&self) -> bool {
        let last: Arc<Mutex<Option<TransactionId>>> = Arc::default();
        let runs = last.clone();
        let body = move |mut transaction: Transaction| {
            let job = self.clone();
            // Another run means that the one before met a conflict.
            if let Some(before) = runs.lock().unwrap().replace(transaction.id()) {
                job.session.scene.record.told(before, Told::NotCommitted("conflict, run again"));
                job.session.scene.record.count("conflicts");
            }
            async move {
                job.fill(&mut transaction).await?;
                Ok::<_, BodyError>((transaction, ()))
            }
        };
        let result = self.session.store.transact(body).await;
        let Some(transaction) = *last.lock().unwrap() else { return false };
        match result {
            Ok(((), committed)) => self.committed(&committed),
            Err(TransactError::Commit(error)) => self.failed(transaction, &error),
            Err(TransactError::Body(error)) => {
                self.session.scene.record.told(transaction, Told::NotCommitted("its body failed"));
                self.note_body(&error);
                false
            }
        }
    }

    async fn by_handle(&self) -> bool {
        let mut transaction = self.session.store.begin();
        let id = transaction.id();
        if let Err(error) = self.fill(&mut transaction).await {
            self.note_body(&error);
            return false;
        }
        match self.session.store.commit(transaction).await {
            Ok(committed) => self.committed(&committed),
            Err(error) => self.failed(id, &error),
        }
    }

    fn note_body(&self, error: &BodyError) {
        match error {
            BodyError::Read(error) => note_read(&self.session, error),
            BodyError::Refused(refused) => self.session.scene.record.broken(format!("refused: {refused}")),
        }
    }

    fn committed(&self, committed: &Committed) -> bool {
        let Session { scene, who, store } = &self.session;
        let sequence = committed.sequence.get();
        scene.record.told(committed.transaction, Told::Committed(sequence));
        scene.record.step(*who, Step::Committed(sequence));
        scene.record.step(*who, Step::Saw(head(&store.view())));
        if committed.lost_races > 0 {
            scene.record.count("lost races");
        }
        true
    }

    fn failed(&self, transaction: TransactionId, error: &CommitError) -> bool {
        let record = &self.session.scene.record;
        let told = match error {
            CommitError::Conflict(_) | CommitError::TooOld => Told::NotCommitted("conflict"),
            CommitError::OutOfTime { .. } => Told::NotCommitted("out of time"),
            CommitError::NotSent(_) => Told::NotCommitted("not sent"),
            CommitError::Store(error) => {
                note_store(&self.session, error);
                Told::NotCommitted("the store could not be read")
            }
            CommitError::Unknown { sequence, .. } => Told::Unknown(sequence.get()),
            CommitError::NotServed { sequence, .. } | CommitError::NotPublished { sequence, .. } => {
                Told::Committed(sequence.get())
            }
            other => {
                record.broken(format!("{transaction}: {other}"));
                Told::Nothing
            }
        };
        match told {
            Told::NotCommitted("conflict") => record.count("conflicts"),
            Told::Unknown(_) => record.count("unknown"),
            Told::NotCommitted(_) | Told::Committed(_) | Told::Nothing => record.count("failed commits"),
        }
        record.told(transaction, told);
        false
    }

    /// Reads and writes, and leaves a row that says what was read.
    async fn fill(&self, transaction: &mut Transaction) -> Result<(), BodyError> {
        let mut did = Did::default();
        match &self.deed {
            Deed::Transfer { from, to, amount } => {
                let (from, to) = (rows::account(*from), rows::account(*to));
                let (mut paid, mut got) = (None, None);
                for (key, held) in [(&from, &mut paid), (&to, &mut got)] {
                    *held = transaction.get(key).await?;
                    did.note(key, held.as_ref());
                }
                if let (Some(paid), Some(got)) = (paid, got) {
                    let amount = rows::amount(&paid).min(*amount);
                    transaction.put(from, (rows::amount(&paid) - amount).to_string())?;
                    transaction.put(to, (rows::amount(&got) + amount).to_string())?;
                }
            }
            Deed::Write { register, value } => {
                let key = rows::register(*register);
                self.acts(transaction, Action::Write(value.clone()));
                match value {
                    Some(value) => transaction.put(key, value.clone())?,
                    None => transaction.delete(key)?,
                }
            }
            Deed::Exchange { register, value } => {
                let key = rows::register(*register);
                let before = transaction.get(&key).await?;
                did.note(&key, before.as_ref());
                self.acts(transaction, Action::Exchange(before, Some(value.clone())));
                transaction.put(key, value.clone())?;
            }
            Deed::ScanRegisters { register, value } => {
                let key = rows::register(*register);
                let found = scan(transaction, rows::REGISTERS, &mut did).await?;
                let before = found.into_iter().find(|(other, _)| *other == key).map(|(_, value)| value);
                self.acts(transaction, Action::Exchange(before, Some(value.clone())));
                transaction.put(key.clone(), value.clone())?;
                let own = scan(transaction, rows::REGISTERS, &mut Did::default()).await?;
                if !own.contains(&(key, value.clone())) {
                    self.session.scene.record.broken(format!("{} does not scan its own write", self.name));
                }
            }
            Deed::ScanAccounts => drop(scan(transaction, rows::ACCOUNTS, &mut did).await?),
        }
        transaction.put(format!("{}{}", rows::DEEDS, self.name), did.encode())?;
        Ok(())
    }

    fn acts(&self, transaction: &Transaction, action: Action) {
        if let Some(call) = self.call {
            self.session.scene.record.acts(call, action, Some(transaction.id()));
        }
    }
}

async fn scan(transaction: &Transaction, prefix: &str, did: &mut Did) -> Result<Vec<(Bytes, Bytes)>, ReadError> {
    let mut scan = transaction.scan_prefix(prefix.as_bytes(), ScanOrder::Descending);
    let mut found = Vec::new();
    did.scanned = Some(prefix.to_owned());
    while let Some((key, value)) = scan.next().await? {
        did.note(&key, Some(&value));
        found.push((key, value));
    }
    Ok(found)
}

/// Notes an error of a read, and whether an honest bucket may lead to it.
fn note_read(session: &Session, error: &ReadError) {
    let record = &session.scene.record;
    match error {
        ReadError::Outlived { .. } => record.count("outlived views"),
        ReadError::Unavailable { .. } => record.count("failed reads"),
        other => record.broken(format!("{:?} read: {other}: {:?}", session.who, std::error::Error::source(other))),
    }
}

fn note_store(session: &Session, error: &StoreError) {
    match error {
        StoreError::Read(error) => note_read(session, error),
        StoreError::Unavailable(_) | StoreError::TimedOut(_) => session.scene.record.count("failed reads"),
        other => session.scene.record.broken(format!("{:?}: {other}", session.who)),
    }
}
