//! A demo from its start to its verdict: the parent of all its processes.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use commit_log::adoption::{AdoptionError, FreshLog};
use commit_log::environment::Environment;
use commit_log::slot::PageSize;
use commit_log::store::{BodyError, OpenError, Store};
use commit_log::transaction::Transaction;

use super::children::command;
use super::directory::{REPORT, STORE, fresh};
use super::events::Event;
use super::history::{History, Mark, What};
use super::page::{Heading, render};
use super::plan::{Account, Kill, OPENING_BALANCE, Plan, Shape};
use super::progress::{Drawing, Progress};
use super::supervise::{Happening, Supervisor};
use super::{Role, summary};
use crate::arguments::{Demo, DemoPlace, DemoWriter, Task};
use crate::command::Exit;
use crate::connect::checked_builder;
use crate::failure::Failure;
use crate::location::{Location, Purpose};

/// Accounts that one transaction opens: far below what a slot holds.
const ACCOUNTS_AT_ONCE: usize = 10_000;

/// SIGKILL, as an ended process tells it.
const KILLED: i32 = 9;

/// Runs a demo and says how it went.
///
/// # Errors
///
/// What kept it from coming to a verdict.
pub async fn run(demo: &Demo, environment: &Environment) -> Result<Exit, Failure> {
    let directory = fresh(demo.directory.as_deref())?;
    let location = match &demo.store {
        Some(store) => Location::parse(store)?,
        None => Location::of_directory(&directory.join(STORE)),
    };
    let seed = demo.seed.unwrap_or_else(|| environment.randomness.number() & u64::from(u32::MAX));
    let shape = Shape { seed, writers: demo.writers, accounts: demo.accounts, transfers: demo.transfers };
    let page_size = PageSize::new(demo.page_size).unwrap_or(PageSize::DEFAULT);
    create(&location, page_size, shape.accounts, environment).await?;
    drop(Location::of_directory(&directory).open(Purpose::Write)?);
    println!("{}", summary::beginning(&shape, &location));
    let mut run = Run {
        plan: Plan::new(shape),
        place: DemoPlace {
            store: location.address(),
            directory: std::path::absolute(&directory).unwrap_or_else(|_| directory.clone()),
            began_at: environment.now_millis(),
            seed,
            writers: shape.writers,
            accounts: shape.accounts,
            transfers: shape.transfers,
            page_size: std::num::NonZeroU32::new(page_size.get()).unwrap_or(std::num::NonZeroU32::MIN),
        },
        environment,
        children: Supervisor::default(),
        history: History::new(shape),
        killing: None,
        kills: 0,
    };
    let drawing = if demo.no_progress { Drawing::Nothing } else { Drawing::Automatic };
    let mut progress = Progress::to_stderr(drawing, &run.history);
    let ran = tokio::select! {
        ran = run.processes(&mut progress) => ran,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    progress.finish(&run.history);
    run.children.end_all().await?;
    ran?;
    let report = demo.report.clone().unwrap_or_else(|| directory.join(REPORT));
    let heading = Heading { store: location.to_string(), command: summary::again(&shape, demo) };
    write(&report, &render(&run.history, &heading))?;
    println!("{}", summary::end(&run.history, &run.plan, &location, &report, &heading.command));
    match &run.history.verdict {
        Some(verdict) if verdict.is_clean() => Ok(Exit::Well),
        Some(_) | None => Ok(Exit::Off),
    }
}

/// Begins the log and opens the accounts.
async fn create(location: &Location, page_size: PageSize, accounts: u32, environment: &Environment) -> Result<(), Failure> {
    let builder = checked_builder(location, Purpose::Write, environment).await?;
    match builder.clone().open_existing().await {
        Err(OpenError::Adoption(AdoptionError::NoLog)) => {}
        Ok(store) => {
            store.close().await;
            return Err(Failure::StoreUsed { location: location.clone() });
        }
        Err(error) => return Err(Failure::store(location, error)),
    }
    let opened = builder.fresh_log(FreshLog { page_size, ..FreshLog::default() }).open().await;
    let store = opened.map_err(|error| Failure::store(location, error))?;
    let accounts: Vec<_> = (0..accounts).map(Account).collect();
    for some in accounts.chunks(ACCOUNTS_AT_ONCE) {
        open_accounts(&store, some).await.map_err(|error| Failure::Store { location: location.clone(), source: error })?;
    }
    store.close().await;
    Ok(())
}

async fn open_accounts(store: &Store, accounts: &[Account]) -> Result<(), crate::failure::Cause> {
    let body = async |mut transaction: Transaction| {
        for account in accounts {
            transaction.put(account.key(), OPENING_BALANCE.to_string())?;
        }
        Ok::<_, BodyError>((transaction, ()))
    };
    store.transact(body).await?;
    Ok(())
}

fn write(report: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(report, page).map_err(|source| Failure::File { path: PathBuf::from(report), doing: "writing", source })
}

struct Run<'e> {
    plan: Plan,
    place: DemoPlace,
    environment: &'e Environment,
    children: Supervisor,
    history: History,
    /// Who was sent a SIGKILL and has not ended yet.
    killing: Option<Role>,
    /// How many kills were made.
    kills: usize,
}

impl Run<'_> {
    /// Everything that processes do: the transfers, then the last fold, then the audit.
    async fn processes(&mut self, progress: &mut Progress<std::io::Stderr>) -> Result<(), Failure> {
        self.start(Role::Folder)?;
        for writer in 0..self.place.writers {
            self.start(Role::Writer(writer))?;
        }
        self.until(progress, |running| running.iter().any(|role| matches!(role, Role::Writer(_)))).await?;
        self.children.ask_to_end(Role::Folder);
        self.until(progress, |running| !running.is_empty()).await?;
        self.start(Role::Auditor)?;
        self.until(progress, |running| !running.is_empty()).await?;
        Ok(())
    }

    /// Listens while those who run are as `go_on` says. Bounded by the ends of the children.
    async fn until(
        &mut self,
        progress: &mut Progress<std::io::Stderr>,
        go_on: impl Fn(&[Role]) -> bool,
    ) -> Result<(), Failure> {
        while go_on(&self.children.roles()) {
            let Some(happening) = self.children.next().await else { return Ok(()) };
            match happening? {
                (role, Happening::Told(line)) => {
                    if let Event::Failed { why } = &line.event {
                        return Err(Failure::Ended { who: role.to_string(), why: why.clone() });
                    }
                    self.history.tell(role, line.at, &line.event);
                }
                (role, Happening::Ended { status, complaint }) => self.ended(role, status, &complaint, progress)?,
            }
            self.kill_when_due()?;
            progress.show(&self.history);
        }
        Ok(())
    }

    fn ended(
        &mut self,
        role: Role,
        status: ExitStatus,
        complaint: &str,
        progress: &mut Progress<std::io::Stderr>,
    ) -> Result<(), Failure> {
        let was_to_die = self.killing.take_if(|killing| *killing == role).is_some();
        if was_to_die && status.signal() == Some(KILLED) {
            self.mark(role, What::Killed);
            progress.note(&format!("{role} was killed after {} commits of all; a new one starts", self.history.commits()));
            return self.start(role);
        }
        if was_to_die {
            // It was done before the signal came. Somebody else dies in its place.
            self.kills -= 1;
        }
        let audited = role == Role::Auditor && self.history.verdict.is_some();
        if status.success() || audited {
            self.mark(role, What::Ended);
            return Ok(());
        }
        let why = complaint.lines().last().map_or_else(|| status.to_string(), str::to_owned);
        Err(Failure::Ended { who: role.to_string(), why })
    }

    /// Kills whoever is due. One at a time: the next one dies when the last one has a successor.
    fn kill_when_due(&mut self) -> Result<(), Failure> {
        if self.killing.is_some() {
            return Ok(());
        }
        let Some(Kill { role, .. }) = self.plan.due(self.kills, self.history.commits()) else { return Ok(()) };
        let running = self.children.roles();
        let another_writer = || running.iter().find(|role| matches!(role, Role::Writer(_))).copied();
        let victim = match role {
            role if running.contains(&role) => Some(role),
            Role::Writer(_) => another_writer(),
            Role::Folder | Role::Auditor => None,
        };
        if let Some(victim) = victim {
            self.kills += 1;
            self.killing = Some(victim);
            self.children.kill(victim)?;
        }
        Ok(())
    }

    fn start(&mut self, role: Role) -> Result<(), Failure> {
        let place = self.place.clone();
        let task = match role {
            Role::Writer(writer) => Task::DemoWriter(DemoWriter { writer, place }),
            Role::Folder => Task::DemoFolder(place),
            Role::Auditor => Task::DemoAuditor(place),
        };
        self.children.start(role, command(&task)?)?;
        self.mark(role, What::Started);
        Ok(())
    }

    fn mark(&mut self, role: Role, what: What) {
        let at = self.environment.now_millis().saturating_sub(self.place.began_at);
        self.history.mark(Mark { at, role, what });
    }
}
