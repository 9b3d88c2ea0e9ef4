//! The simulated bucket: an object store written as a server, which every process of a world reaches over a link of
//! its own. A request is accepted, takes effect and is answered at three instants; each can be cut; and dropping the
//! caller stops nothing that was sent.
//!
//! Everything a link does is drawn from a random stream of its own, so one seed is one run.

mod faults;
mod link;
mod objects;
mod plan;
mod request;
mod server;
mod stage;
#[cfg(test)]
mod tests;
mod uploads;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use object_store::ObjectStore;
use tokio::sync::{Notify, oneshot};

pub use faults::{Counters, Fault, Faults, Latency, Rates};
pub use objects::{Dialect, Object};
pub use request::{Operation, OperationClass, Process, RequestId};
pub use server::Partition;
pub use stage::{Action, Match};

use crate::clock::Timeline;
use crate::fingerprint::Hash128;
use crate::history::History;
use crate::runtime::World;
use link::Link;
use request::{Answer, Ask};
use server::{Gate, Server};

/// The bucket of one world. Clones are the same bucket.
#[derive(Clone, Debug)]
pub struct SimulatedBucket {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    server: Mutex<Server>,
    timeline: Timeline,
    /// Wakes the server's task when an instant was planned before the one it sleeps for.
    earlier: Notify,
    /// Wakes whoever waits for a stage to be reached.
    staged: Notify,
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }

    /// Changes the server and wakes its task if something is due earlier than before.
    fn change<T>(&self, change: impl FnOnce(&mut Server) -> T) -> T {
        let mut server = self.server();
        let before = server.next_due();
        let value = change(&mut server);
        let after = server.next_due();
        drop(server);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.earlier.notify_one();
        }
        value
    }

    fn submit(&self, link: usize, path: &str, ask: Ask) -> Option<oneshot::Receiver<Answer>> {
        let answer = self.change(|server| server.submit(link, path, ask));
        self.staged.notify_waiters();
        answer
    }

    fn gate(&self, link: usize) -> Gate {
        self.server().gate(link)
    }

    /// The server's task: sleeps from instant to instant for as long as the world lasts.
    async fn serve(self: Arc<Self>) {
        loop {
            let next = {
                let mut server = self.server();
                server.run_due();
                server.next_due()
            };
            match next {
                None => self.earlier.notified().await,
                Some(at) => tokio::select! {
                    biased;
                    () = self.earlier.notified() => {}
                    () = self.timeline.sleep_until(at) => {}
                },
            }
        }
    }
}

impl SimulatedBucket {
    /// Starts an empty bucket in this world's runtime, with `faults` for every link until told otherwise.
    pub fn start(world: &World, faults: Faults) -> Self {
        let timeline = world.timeline();
        let shared = Arc::new(Shared {
            server: Mutex::new(Server::new(world.seed(), timeline, world.budget(), faults)),
            timeline,
            earlier: Notify::new(),
            staged: Notify::new(),
        });
        tokio::spawn(Arc::clone(&shared).serve());
        Self { shared }
    }

    /// The process's view of the bucket. After a kill this is a new incarnation; the old views stay dead.
    pub fn link(&self, process: Process) -> Arc<dyn ObjectStore> {
        let link = self.shared.server().link(process);
        Arc::new(Link { shared: Arc::clone(&self.shared), process, link })
    }

    /// Makes the store speak another dialect from now on.
    pub fn speak(&self, dialect: Dialect) {
        self.shared.server().objects.dialect = dialect;
    }

    /// Gives one link other faults. Requests already accepted keep their fate.
    pub fn set_faults(&self, process: Process, faults: Faults) {
        self.shared.server().set_faults(process, faults);
    }

    /// Gives every link, and those to come, other faults.
    pub fn set_all_faults(&self, faults: Faults) {
        self.shared.server().set_all_faults(faults);
    }

    /// Kills the process: no request of its links is ever answered again, and what it sent may still land.
    pub fn kill(&self, process: Process) {
        self.shared.change(|server| server.kill(process));
    }

    /// Stops the process as SIGSTOP does: what it sends is not accepted and what it is answered does not arrive
    /// before [`SimulatedBucket::resume`]. Its timers run on, as they seem to after a real stop.
    pub fn pause(&self, process: Process) {
        self.shared.change(|server| server.pause(process));
    }

    /// Lets a paused process go on.
    pub fn resume(&self, process: Process) {
        self.shared.change(|server| server.resume(process));
    }

    /// Cuts the process off. What it sent before still takes effect; answers that arrive meanwhile are lost.
    pub fn partition(&self, process: Process, partition: Partition) {
        self.shared.change(|server| server.set_partition(process, Some(partition)));
    }

    /// Ends a partition.
    pub fn heal(&self, process: Process) {
        self.shared.change(|server| server.set_partition(process, None));
    }

    /// Stages the fate of requests that match, from now on.
    pub fn stage(&self, matcher: Match, action: Action) -> Stage {
        let rule = self.shared.server().stage(matcher, action);
        Stage { shared: Arc::clone(&self.shared), rule }
    }

    /// Reads the history. The bucket stands still meanwhile.
    pub fn history<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        read(&self.shared.server().objects.history)
    }

    /// The objects whose path starts with `prefix`, by path, as they are now.
    pub fn objects(&self, prefix: &str) -> Vec<(Arc<str>, Object)> {
        let server = self.shared.server();
        let objects = server.objects.under(prefix);
        objects.map(|(path, object)| (Arc::clone(path), object.clone())).collect()
    }

    /// How often each fault landed.
    pub fn counters(&self) -> Counters {
        self.shared.server().counters.clone()
    }

    /// How many requests were sent.
    pub fn requests(&self) -> u64 {
        self.shared.server().accepted()
    }

    /// The running hash over every request, effect and answer so far.
    pub fn fingerprint(&self) -> Hash128 {
        self.shared.server().fingerprint.value()
    }

    /// Waits until everything that is on its way has landed, late landings too. What stages hold stays held.
    pub async fn settle(&self) {
        loop {
            let last = self.shared.server().last_effect();
            let Some(last) = last else { return };
            self.shared.timeline.sleep_until(last + Duration::from_millis(1)).await;
        }
    }
}

/// A staged action: how far it has come, and its release.
#[derive(Clone, Debug)]
pub struct Stage {
    shared: Arc<Shared>,
    rule: usize,
}

impl Stage {
    /// How many requests met it.
    pub fn hits(&self) -> u64 {
        self.shared.server().stage_hits(self.rule)
    }

    /// Waits until a request has met it.
    pub async fn reached(&self) {
        loop {
            let staged = self.shared.staged.notified();
            if self.hits() > 0 {
                return;
            }
            staged.await;
        }
    }

    /// Lets go what it holds, and every later request that would have met it.
    pub fn release(&self) {
        self.shared.change(|server| server.release(self.rule));
    }
}
