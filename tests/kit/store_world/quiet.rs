//! The quiet parts of a world: its beginning, and its end, when faults have stopped and everything must come right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use commit_log::envelope::Slot;
use commit_log::log::Outcome;
use commit_log::slot::Sequence;
use commit_log::store::BodyError;
use commit_log::transaction::Transaction;
use commit_log::view::{Base, BaseSettings, ManifestObject, ScanOrder};

use super::checks::{self, Landed, Manifest};
use super::client::read_all;
use super::process::{STORE, Scene, Session, head};
use super::record::{Incarnation, Observation, Recorded, Step, Told};
use super::rows;
use crate::bucket::{Faults, Process};

/// How often the survivor takes the store at the end before it counts as stuck.
const TAKES: usize = 6;

/// What the bucket says of the world.
pub(super) struct Evidence {
    landed: Vec<Landed>,
    manifests: Vec<Manifest>,
    takes: BTreeMap<u64, u32>,
}

impl Evidence {
    /// Judges the world, and tells how often the store was folded.
    pub(super) fn judge(&self, recorded: &Recorded) -> Result<u64, String> {
        if let Some(first) = recorded.broken.first() {
            return Err(first.clone());
        }
        let Evidence { landed, manifests, takes } = self;
        checks::slots_are_whole(landed)?;
        checks::each_is_committed_once(recorded, landed)?;
        checks::sessions_move_forward(&recorded.sessions)?;
        checks::reads_are_serial(landed)?;
        checks::observations_are_true(&recorded.observations, landed)?;
        checks::registers_are_linearizable(&checks::history_of(recorded, landed))?;
        checks::one_holder_folds(manifests, takes, landed)
    }
}

/// The first process fills the bank and goes.
pub(super) async fn begin(scene: &Scene) -> Result<(), String> {
    let session = scene.open(Incarnation { process: 0, run: 0 }).await.ok_or("no first open")?;
    let fill = |mut transaction: Transaction| async move {
        for number in 0..rows::ACCOUNT_COUNT {
            transaction.put(rows::account(number), rows::OPENING.to_string())?;
        }
        let id = transaction.id();
        Ok::<_, BodyError>((transaction, id))
    };
    let (id, committed) = session.store.transact(fill).await.map_err(|error| error.to_string())?;
    scene.record.told(id, Told::Committed(committed.sequence.get()));
    session.store.close().await;
    Ok(())
}

/// Reads all of the latest view of a process.
pub(super) async fn observe(session: &Session, reader: &'static str) -> bool {
    let record = &session.scene.record;
    let acknowledged = record.acknowledged();
    let Ok(view) = session.store.latest().await else { return false };
    record.step(session.who, Step::Latest { acknowledged, head: head(&view) });
    let Ok(rows) = read_all(&view, "", ScanOrder::Descending).await else { return false };
    record.observed(Observation { reader, head: head(&view), prefix: "", rows });
    true
}

/// Faults stop. Everything unknown is resolved, the tail is folded, and two fresh processes read the same.
pub(super) async fn end(scene: &Scene) -> Result<Evidence, String> {
    scene.bucket.set_all_faults(Faults::none());
    scene.bucket.settle().await;
    let survivor = scene.open(Incarnation { process: 2_000, run: 0 }).await.ok_or("no open in the end")?;
    resolve(&survivor).await?;
    fold(&survivor).await?;
    // Everything that may go goes, and nobody reads less for it.
    survivor.clone().retire().await;
    for process in [2_001, 2_002] {
        let fresh = scene.open(Incarnation { process, run: 0 }).await.ok_or("no fresh open in the end")?;
        if !observe(&fresh, "last audits").await {
            return Err("a fresh process could not read a quiet store".to_owned());
        }
        let view = fresh.store.view();
        let manifest = view.base().manifest().ok_or("the store was never folded")?;
        if view.overlay().rows() > 0 || view.base().covered() != view.head() {
            return Err(format!("the tail is not folded: {:?} under head {:?}", view.base(), view.head()));
        }
        if manifest.replay_after_wal_id() != manifest.last_l0_seq() {
            return Err(format!("replay point {} beside {}", manifest.replay_after_wal_id(), manifest.last_l0_seq()));
        }
        fresh.store.close().await;
    }
    let evidence = gather(scene, &survivor).await?;
    survivor.store.close().await;
    Ok(evidence)
}

/// Closes whatever is open. From then on nobody's answer may be "unknown".
async fn resolve(survivor: &Session) -> Result<(), String> {
    let record = &survivor.scene.record;
    for (transaction, tried) in record.read().transactions {
        let open = match tried.told {
            Told::Unknown(sequence) => Some(sequence),
            Told::Nothing => tried.offered.last().copied(),
            Told::Committed(_) | Told::NotCommitted(_) => None,
        };
        let Some(sequence) = open.and_then(Sequence::new) else { continue };
        survivor.store.latest().await.map_err(|error| error.to_string())?;
        let closed = survivor.store.close_open(transaction, sequence).await;
        match closed.map_err(|error| format!("{transaction} at {sequence} cannot be closed: {error}"))? {
            Outcome::Landed => record.told(transaction, Told::Committed(sequence.get())),
            Outcome::Never => record.told(transaction, Told::NotCommitted("closed")),
            Outcome::Open => return Err(format!("{transaction} at {sequence} is open after it was closed")),
        }
        record.count("resolved");
    }
    Ok(())
}

/// Takes the store and gives it back, until all is folded.
async fn fold(survivor: &Session) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..TAKES {
        match survivor.store.hold().await {
            Ok(holder) => match holder.stop().await {
                Ok(()) => return Ok(()),
                Err(error) => last = format!("{error}: {:?}", std::error::Error::source(&error)),
            },
            Err(error) => last = format!("{error}: {:?}", std::error::Error::source(&error)),
        }
        survivor.scene.record.count("takes again in the end");
        survivor.scene.pause(Duration::from_secs(5)).await;
    }
    Err(format!("the tail could not be folded: {last}"))
}

async fn gather(scene: &Scene, survivor: &Session) -> Result<Evidence, String> {
    let log = survivor.store.log().record().log;
    let number = |path: &str| -> Option<u64> { path.rsplit('/').next()?.split('.').next()?.parse().ok() };
    let mut landed = Vec::new();
    let mut written = Vec::new();
    let mut takes = BTreeMap::new();
    scene.bucket.history(|history| {
        for effect in history.puts_under(&format!("{STORE}/commits/{log}/")) {
            landed.push((effect.number, number(&effect.path), effect.bytes.clone()));
        }
        for effect in history.puts_under(&format!("{STORE}/manifest/")) {
            written.push((effect.number, effect.process.0, number(&effect.path), effect.bytes.clone()));
        }
        for effect in history.puts_under(&format!("{STORE}/takes/{log}/")) {
            takes.insert(number(&effect.path).unwrap(), effect.process.0);
        }
    });
    landed.sort_by_key(|(effect, number, _)| (*number, *effect));
    // A name is created again only after its page was retired: what came first is the slot, the others are zombies.
    let with_zombies = landed.len();
    landed.dedup_by_key(|(_, number, _)| *number);
    (landed.len()..with_zombies).for_each(|_| scene.record.count("zombies"));
    let mut slots = Vec::new();
    for (effect, number, bytes) in landed {
        let sequence = number.and_then(Sequence::new).ok_or("a slot without a number")?;
        let slot = Slot::decode(bytes.ok_or("a slot without bytes")?, log, sequence).map_err(|damage| damage.to_string())?;
        let envelope = slot.envelope();
        let writes = envelope.writes.iter().map(|write| (write.key.clone(), write.value.clone())).collect();
        slots.push(Landed { sequence: sequence.get(), effect, members: envelope.members.clone(), writes });
    }
    let settings = BaseSettings::new(scene.bucket.link(Process(3_000)), STORE.into(), scene.clock(3_000));
    let mut manifests = Vec::new();
    for (effect, process, id, bytes) in written {
        let object = ManifestObject { id: id.unwrap(), bytes: bytes.ok_or("a manifest that was not created")? };
        let base = Arc::new(Base::open(&settings, &object).await.map_err(|error| error.to_string())?);
        let found = base.manifest().ok_or("no manifest")?;
        let (covered, replay_point) = (found.last_l0_seq(), found.replay_after_wal_id());
        manifests.push(Manifest { id: object.id, effect, process, epoch: found.writer_epoch(), covered, replay_point });
        base.close().await;
    }
    manifests.sort_by_key(|manifest| manifest.effect);
    Ok(Evidence { landed: slots, manifests, takes })
}
