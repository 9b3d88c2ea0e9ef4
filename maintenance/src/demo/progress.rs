//! What is seen of a run while it goes on: a line a process on a terminal, a plain line now and then without one.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Role;
use super::history::{History, Tally};

/// How much of the run's own time passes between two plain lines. A log of a build then has a few dozen lines a minute.
const PLAIN_EVERY_MILLIS: u64 = 2_000;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// Lines that move, where standard error is a terminal, else plain lines.
    Automatic,
    /// Plain lines.
    Plain,
    /// Nothing.
    Nothing,
}

/// Draws a run.
#[derive(Debug)]
pub struct Progress<W> {
    drawn: Drawn,
    output: W,
}

#[derive(Debug)]
enum Drawn {
    Bars { all: MultiProgress, roles: BTreeMap<Role, ProgressBar>, log: ProgressBar },
    Plain { next: u64 },
    Nothing,
}

impl Progress<io::Stderr> {
    /// Draws to standard error.
    pub fn to_stderr(drawing: Drawing, history: &History) -> Progress<io::Stderr> {
        let stderr = io::stderr();
        let drawing = match drawing {
            Drawing::Automatic if !stderr.is_terminal() => Drawing::Plain,
            Drawing::Automatic | Drawing::Plain | Drawing::Nothing => drawing,
        };
        Progress::new(drawing, stderr, history)
    }
}

impl<W: Write> Progress<W> {
    /// Draws lines that move to standard error, plain lines to `output`.
    pub fn new(drawing: Drawing, output: W, history: &History) -> Progress<W> {
        let drawn = match drawing {
            Drawing::Automatic => bars(history),
            Drawing::Plain => Drawn::Plain { next: 0 },
            Drawing::Nothing => Drawn::Nothing,
        };
        Progress { drawn, output }
    }

    /// Shows where the run is. Cheap; call it after everything that happens.
    pub fn show(&mut self, history: &History) {
        match &mut self.drawn {
            Drawn::Bars { roles, log, .. } => {
                for (role, bar) in roles {
                    let tally = history.tallies.get(role).copied().unwrap_or_default();
                    bar.set_position(tally.commits);
                    bar.set_message(words(*role, tally));
                }
                log.set_position(history.commits());
                log.set_message(log_words(history));
            }
            Drawn::Plain { next } if history.now >= *next => {
                *next = history.now - history.now % PLAIN_EVERY_MILLIS + PLAIN_EVERY_MILLIS;
                self.say(&plain_line(history));
            }
            Drawn::Plain { .. } | Drawn::Nothing => {}
        }
    }

    /// Says one line, above whatever moves: a kill, a restart.
    pub fn note(&mut self, text: &str) {
        match &self.drawn {
            // A terminal that went away takes nothing, and the run goes on.
            Drawn::Bars { all, .. } => drop(all.println(text)),
            Drawn::Plain { .. } => self.say(text),
            Drawn::Nothing => {}
        }
    }

    /// Leaves the last state on the screen.
    pub fn finish(&mut self, history: &History) {
        self.show(history);
        match &self.drawn {
            Drawn::Bars { roles, log, .. } => roles.values().chain([log]).for_each(ProgressBar::abandon),
            Drawn::Plain { .. } => self.say(&plain_line(history)),
            Drawn::Nothing => {}
        }
    }

    fn say(&mut self, text: &str) {
        // Progress that nobody can read is no reason to stop.
        drop(writeln!(self.output, "{text}"));
    }
}

fn bars(history: &History) -> Drawn {
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    let style = |template: &str| ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let line = style("{prefix:>9}  {bar:24.cyan/dim}  {msg}").progress_chars("━━─");
    let share = u64::from(history.shape.transfers) / u64::from(history.shape.writers.max(1));
    let bar = |role: Role| {
        let bar = match role {
            Role::Writer(_) => all.add(ProgressBar::new(share)).with_style(line.clone()),
            Role::Folder | Role::Auditor => all.add(ProgressBar::new_spinner()).with_style(style("{prefix:>9}  {msg}")),
        };
        (role, bar.with_prefix(role.to_string()))
    };
    let roles = history.tallies.keys().copied().map(bar).collect();
    let log = all.add(ProgressBar::new(u64::from(history.shape.transfers))).with_style(line.clone()).with_prefix("log");
    Drawn::Bars { all, roles, log }
}

/// What one process did, in words.
fn words(role: Role, tally: Tally) -> String {
    let killed = match tally.kills {
        0 => String::new(),
        1 => ", killed once".to_owned(),
        kills => format!(", killed {kills} times"),
    };
    match role {
        Role::Writer(_) => format!("{} commits, {} lost races{killed}", tally.commits, tally.lost),
        Role::Folder => format!("{} folds{killed}", tally.folds),
        Role::Auditor => String::new(),
    }
}

fn log_words(history: &History) -> String {
    format!("head {}, folded through {}", history.head, history.folded)
}

fn plain_line(history: &History) -> String {
    let lost: u64 = history.tallies.values().map(|tally| tally.lost).sum();
    let seconds = history.now / 1_000;
    let (commits, all) = (history.commits(), history.shape.transfers);
    format!("{seconds:>4} s  {commits} of {all} commits, {lost} lost races, {}", log_words(history))
}

#[cfg(test)]
mod tests {
    use super::super::events::Event;
    use super::super::plan::Shape;
    use super::*;

    fn history() -> History {
        History::new(Shape { seed: 1, writers: 2, accounts: 2, transfers: 20 })
    }

    fn run(drawing: Drawing) -> String {
        let mut history = history();
        let mut progress = Progress::new(drawing, Vec::new(), &history);
        for at in 0..50 {
            history.tell(Role::Writer(0), at * 100, &Event::Committed { sequence: at + 1 });
            history.tell(Role::Writer(1), at * 100, &Event::Lost { sequence: at + 1 });
            progress.show(&history);
        }
        progress.note("folder: killed");
        progress.finish(&history);
        String::from_utf8(progress.output).unwrap()
    }

    #[test]
    fn without_a_terminal_a_plain_line_comes_now_and_then() {
        let text = run(Drawing::Plain);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[1], "   2 s  21 of 20 commits, 21 lost races, head 21, folded through 0");
        assert_eq!(lines[3], "folder: killed");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(run(Drawing::Nothing), "");
    }

    #[test]
    fn a_terminal_gets_a_line_for_every_process_and_one_for_the_log() {
        let Drawn::Bars { roles, .. } = bars(&history()) else { panic!("no bars") };
        assert_eq!(roles.len(), 3);
        let tally = Tally { commits: 5, lost: 2, kills: 1, ..Tally::default() };
        assert_eq!(words(Role::Writer(0), tally), "5 commits, 2 lost races, killed once");
        // Drawing to a standard error that is no terminal writes nothing and does not fail.
        assert_eq!(run(Drawing::Automatic), "");
    }
}
