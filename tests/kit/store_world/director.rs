//! The part of a world in which things go wrong: processes work, hold, are killed, start again, stand still.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::client::Client;
use super::process::Scene;
use super::record::Incarnation;
use crate::bucket::Process;

/// The most rounds of a world: a world whose clients are not done by then is broken.
const ROUNDS: usize = 2_000;

/// One process, whatever run of it is alive.
struct Machine {
    scene: Scene,
    who: Incarnation,
    left: Vec<Arc<Mutex<u32>>>,
    running: Vec<JoinHandle<()>>,
    /// Where the tasks of the running incarnation find each other.
    session: Arc<Mutex<Option<super::process::Session>>>,
}

impl Machine {
    fn start(scene: &Scene, process: u32) -> Machine {
        let left = (0..scene.draw.clients).map(|_| Arc::new(Mutex::new(scene.draw.deeds))).collect();
        let who = Incarnation { process, run: 0 };
        let mut machine = Machine { scene: scene.clone(), who, left, running: Vec::new(), session: Arc::default() };
        machine.run();
        machine
    }

    /// Opens the store and sets the clients to work.
    fn run(&mut self) {
        let (scene, who, left) = (self.scene.clone(), self.who, self.left.clone());
        self.session = Arc::default();
        let session = self.session.clone();
        self.running.push(tokio::spawn(async move {
            let Some(open) = scene.open(who).await else { return };
            *session.lock().unwrap() = Some(open.clone());
            let numbers = 0u32..;
            let clients = numbers.zip(left).map(|(number, left)| Client::new(open.clone(), number).work(left));
            futures::future::join_all(clients).await;
        }));
    }

    /// Kills it and starts it again. Nothing of the old run is heard of any more; what it sent may still land.
    fn restart(&mut self) {
        self.kill();
        self.who.run += 1;
        self.scene.record.count("kills");
        self.run();
    }

    fn kill(&mut self) {
        self.scene.bucket.kill(Process(self.who.process));
        for task in self.running.drain(..) {
            task.abort();
        }
        self.session.lock().unwrap().take();
    }

    fn hold(&mut self, duration: Duration) {
        let session = self.session.lock().unwrap().clone();
        if let Some(session) = session {
            self.running.push(tokio::spawn(session.hold(duration)));
        }
    }

    fn retire(&mut self) {
        let session = self.session.lock().unwrap().clone();
        if let Some(session) = session {
            self.running.push(tokio::spawn(session.retire()));
        }
    }

    fn is_done(&self) -> bool {
        self.left.iter().all(|left| *left.lock().unwrap() == 0)
    }
}

/// Runs a world until every client has done its deeds, then kills every process or lets it go quietly.
pub(super) async fn direct(scene: &Scene) {
    let mut random = scene.draw.stream([0, 0, 9]);
    let mut machines: Vec<Machine> = (1..=scene.draw.processes).map(|process| Machine::start(scene, process)).collect();
    let mut onlookers = 0;
    for _ in 0..ROUNDS {
        let think = Duration::from_millis(random.random_range(100..2_000));
        scene.pause(think).await;
        if machines.iter().all(Machine::is_done) {
            return end(scene, &mut random, machines).await;
        }
        let chosen = random.random_range(0..machines.len());
        let machine = &mut machines[chosen];
        match random.random_range(0..20) {
            0..5 => machine.hold(Duration::from_millis(random.random_range(100..6_000))),
            8..10 => machine.restart(),
            10..12 => stand_still(scene, machine.who.process, Duration::from_millis(random.random_range(500..15_000))),
            5..8 => machine.retire(),
            12..14 => {
                onlookers += 1;
                look_on(scene, 1_000 + onlookers);
            }
            _ => {}
        }
    }
    scene.record.broken("the clients were never done".to_owned());
}

/// Stops a process for a while, as a machine does that is put to sleep.
fn stand_still(scene: &Scene, process: u32, duration: Duration) {
    let scene = scene.clone();
    scene.record.count("pauses");
    tokio::spawn(async move {
        scene.bucket.pause(Process(process));
        scene.pause(duration).await;
        scene.bucket.resume(Process(process));
    });
}

/// A process that was never there before opens the store, reads all of it and closes it.
fn look_on(scene: &Scene, process: u32) {
    let scene = scene.clone();
    tokio::spawn(async move {
        let Some(session) = scene.open(Incarnation { process, run: 0 }).await else { return };
        super::quiet::observe(&session, "fresh opens").await;
        session.store.close().await;
    });
}

/// Lets some processes end as they should; the others are killed.
async fn end(scene: &Scene, random: &mut StdRng, machines: Vec<Machine>) {
    for mut machine in machines {
        if random.random_bool(0.5) {
            machine.kill();
            continue;
        }
        scene.bucket.resume(Process(machine.who.process));
        for task in machine.running.drain(..) {
            // A world that waits here for ever ends at its deadline.
            task.await.ok();
        }
        let session = machine.session.lock().unwrap().take();
        if let Some(session) = session {
            session.store.close().await;
        }
    }
}
