//! The parent's hold on its children: starts them, reads what they tell, kills them, and lets none outlive it.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::Role;
use super::events::{EventError, Line, MAX_LINE_BYTES};

/// Lines that wait for the parent. When it is slow the pipes fill and the children wait, nothing grows.
const QUEUE: usize = 1_024;

/// The most bytes of a child's standard error that are kept, from its end: a panic's message with its backtrace.
const MAX_COMPLAINT_BYTES: usize = 16 << 10;

/// Something that a child did.
#[derive(Debug)]
pub enum Happening {
    /// It told something.
    Told(Line),
    /// It ended.
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of what it wrote to its standard error.
        complaint: String,
    },
}

/// Why a child cannot be supervised.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// It could not be started.
    #[error("{role} cannot be started: {}", source.kind())]
    Start {
        /// Who.
        role: Role,
        /// Why.
        source: io::Error,
    },
    /// There is one already.
    #[error("{role} runs already")]
    Twice {
        /// Who.
        role: Role,
    },
    /// It could not be killed, or its end not be waited for.
    #[error("{role} cannot be waited for: {}", source.kind())]
    Wait {
        /// Who.
        role: Role,
        /// Why.
        source: io::Error,
    },
    /// What it tells could not be read.
    #[error("{role} cannot be read: {}", source.kind())]
    Read {
        /// Who.
        role: Role,
        /// Why.
        source: io::Error,
    },
    /// It told something that is no event.
    #[error(transparent)]
    Event(#[from] EventError),
}

enum Signal {
    Line(Line),
    Broken(SuperviseError),
    /// Standard output and standard error are closed.
    Closed {
        complaint: String,
    },
}

struct Running {
    child: Child,
    /// Closing it asks the child to end.
    stdin: Option<ChildStdin>,
}

/// The running children.
///
/// - Dropping it kills them all. Where the parent itself is killed, their standard inputs close, which tells them to end:
///   see [`parent_gone`].
/// - At most one runs in each role.
pub struct Supervisor {
    running: BTreeMap<Role, Running>,
    sender: mpsc::Sender<(Role, Signal)>,
    signals: mpsc::Receiver<(Role, Signal)>,
}

impl Default for Supervisor {
    fn default() -> Supervisor {
        let (sender, signals) = mpsc::channel(QUEUE);
        Supervisor { running: BTreeMap::new(), sender, signals }
    }
}

impl Supervisor {
    /// Starts `command` as `role`.
    ///
    /// # Errors
    ///
    /// When one runs already, and when it cannot be started.
    pub fn start(&mut self, role: Role, mut command: Command) -> Result<(), SuperviseError> {
        if self.running.contains_key(&role) {
            return Err(SuperviseError::Twice { role });
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|source| SuperviseError::Start { role, source })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let sender = self.sender.clone();
        // The task ends with its pipes, which end with the child; or with the queue, which ends with the supervisor.
        tokio::spawn(async move {
            let told = async {
                match stdout {
                    Some(stdout) => forward(BufReader::new(stdout), role, &sender).await,
                    None => Ok(()),
                }
            };
            let complained = async {
                match stderr {
                    Some(stderr) => last_words(stderr).await,
                    None => String::new(),
                }
            };
            let (told, complaint) = tokio::join!(told, complained);
            if let Err(error) = told {
                // A full queue is waited for; a closed one has nobody left to tell.
                drop(sender.send((role, Signal::Broken(error))).await);
            }
            drop(sender.send((role, Signal::Closed { complaint })).await);
        });
        self.running.insert(role, Running { child, stdin });
        Ok(())
    }

    /// Who runs.
    pub fn roles(&self) -> Vec<Role> {
        self.running.keys().copied().collect()
    }

    /// The next thing that a child does. `None` when none runs. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// When a child breaks the protocol between them. It is still running.
    pub async fn next(&mut self) -> Option<Result<(Role, Happening), SuperviseError>> {
        if self.running.is_empty() {
            return None;
        }
        let (role, signal) = self.signals.recv().await?;
        match signal {
            Signal::Line(line) => Some(Ok((role, Happening::Told(line)))),
            Signal::Broken(error) => Some(Err(error)),
            Signal::Closed { complaint } => {
                let mut running = self.running.remove(&role)?;
                drop(running.stdin.take());
                let ended = running.child.wait().await;
                let ended = ended.map(|status| (role, Happening::Ended { status, complaint }));
                Some(ended.map_err(|source| SuperviseError::Wait { role, source }))
            }
        }
    }

    /// Kills a child as an accident would (SIGKILL): it gets no say. Its end comes out of [`Supervisor::next`], after what
    /// it had told. Nothing happens when it does not run.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub fn kill(&mut self, role: Role) -> Result<(), SuperviseError> {
        match self.running.get_mut(&role) {
            Some(running) => running.child.start_kill().map_err(|source| SuperviseError::Wait { role, source }),
            None => Ok(()),
        }
    }

    /// Asks a child to end, by closing its standard input. Nothing happens when it does not run.
    pub fn ask_to_end(&mut self, role: Role) {
        if let Some(running) = self.running.get_mut(&role) {
            drop(running.stdin.take());
        }
    }

    /// Kills every child and waits until each is gone.
    ///
    /// # Errors
    ///
    /// The first that could not be killed or waited for; the others are gone.
    pub async fn end_all(&mut self) -> Result<(), SuperviseError> {
        let mut first = Ok(());
        for (role, mut running) in std::mem::take(&mut self.running) {
            let ended = running.child.kill().await.map_err(|source| SuperviseError::Wait { role, source });
            first = first.and(ended);
        }
        first
    }
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("running", &self.roles()).finish_non_exhaustive()
    }
}

/// Hands on every line as an event until the child closes its output. After a line that is none it reads on and drops
/// the rest, so that the child does not hang on a full pipe.
async fn forward(
    mut output: impl AsyncBufRead + Unpin,
    role: Role,
    sender: &mpsc::Sender<(Role, Signal)>,
) -> Result<(), SuperviseError> {
    let mut broken = Ok(());
    loop {
        let mut text = Vec::new();
        let bound = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut output).take(bound).read_until(b'\n', &mut text).await;
        match read.map_err(|source| SuperviseError::Read { role, source })? {
            0 => return broken,
            _ if broken.is_err() => continue,
            _ => {}
        }
        let line = match text.strip_suffix(b"\n") {
            Some(line) => Line::parse(line, role),
            None if text.len() > MAX_LINE_BYTES => Err(EventError::TooLong { role }),
            // A kill tore it. What it would have said, the journal and the log say.
            None => continue,
        };
        match line {
            Ok(line) => {
                if sender.send((role, Signal::Line(line))).await.is_err() {
                    return broken;
                }
            }
            Err(error) => broken = Err(SuperviseError::Event(error)),
        }
    }
}

/// The end of what comes, without holding more than that.
async fn last_words(mut output: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4_096];
    loop {
        match output.read(&mut chunk).await {
            // A pipe that cannot be read has nothing more to say.
            Ok(0) | Err(_) => return String::from_utf8_lossy(&kept).trim().to_owned(),
            Ok(read) => {
                kept.extend_from_slice(&chunk[..read]);
                let over = kept.len().saturating_sub(MAX_COMPLAINT_BYTES);
                drop(kept.drain(..over));
            }
        }
    }
}

/// For a child: comes back when the parent closed the child's standard input or is gone, however it went.
///
/// The read waits on a thread of the runtime's blocking pool: a child that is done first ends its runtime with
/// `shutdown_background`, or it would wait for its parent.
///
/// # Errors
///
/// When there is no standard input: nobody supervises this process.
pub fn parent_gone() -> io::Result<impl Future<Output = ()> + Send> {
    let input = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(closed(tokio::fs::File::from_std(input)))
}

/// Comes back when `input` is at its end. Whatever is written to it says nothing.
async fn closed(mut input: impl AsyncRead + Unpin + Send) {
    let mut ignored = [0; 64];
    while let Ok(1..) = input.read(&mut ignored).await {}
}

#[cfg(test)]
mod tests;
