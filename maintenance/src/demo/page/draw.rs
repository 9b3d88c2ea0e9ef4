//! Scales, numbers and escaping: what every part of the page draws with.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::Role;
use super::super::history::{History, Tally, What};
use super::{COMMITS_A_COLUMN, MAX_COLUMNS, MAX_SINGLE_MARKS, MIN_COLUMNS};

/// The width of every drawing, in its own units. Drawings stretch; strokes and text do not.
pub(super) const WIDTH: f64 = 1_000.0;

/// The most labels of the time axis, so that they do not meet on a phone.
const MAX_LABELS: u64 = 6;

/// How the lanes draw slots won and lost: all lanes of a run alike, so that they can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// One by one.
    Single,
    /// Counted in columns.
    Counted,
}

/// Time across the page.
#[derive(Debug)]
pub(super) struct Scale {
    /// How long the run was, in ms.
    pub(super) duration: u64,
    /// When somebody was killed.
    pub(super) kills: Vec<u64>,
    /// In how many columns commits are counted.
    pub(super) columns: usize,
    /// How lanes draw.
    pub(super) marks: Marks,
    /// The most slots that one writer won in a column, at least one: what a full bar means in every lane.
    pub(super) most_won: u64,
    /// The same for slots lost.
    pub(super) most_lost: u64,
}

impl Scale {
    pub(super) fn of(history: &History) -> Scale {
        let marks = history.marks.iter().filter(|mark| mark.role != Role::Auditor);
        let duration = marks.map(|mark| mark.at).max().unwrap_or(0).max(1);
        let kills = history.marks.iter().filter(|mark| mark.what == What::Killed).map(|mark| mark.at).collect();
        let commits = usize::try_from(history.commits()).unwrap_or(usize::MAX);
        let columns = (commits / COMMITS_A_COLUMN).clamp(MIN_COLUMNS, MAX_COLUMNS);
        let most = |tally: &Tally| tally.commits.max(tally.lost);
        let marks = match history.tallies.values().map(most).max() > Some(MAX_SINGLE_MARKS) {
            true => Marks::Counted,
            false => Marks::Single,
        };
        let mut scale = Scale { duration, kills, columns, marks, most_won: 1, most_lost: 1 };
        let (mut won, mut lost) = (BTreeMap::new(), BTreeMap::new());
        for mark in &history.marks {
            let (counts, most) = match mark.what {
                What::Committed(_) => (&mut won, &mut scale.most_won),
                What::Lost(_) => (&mut lost, &mut scale.most_lost),
                What::Started | What::Killed | What::Ended | What::Unknown(_) | What::Resolved(..) | What::Folded(_) => {
                    continue;
                }
            };
            let count = counts.entry((mark.role, column(mark.at, duration, columns))).or_insert(0);
            *count += 1;
            *most = (*most).max(*count);
        }
        scale
    }

    /// Where `at` is, in a drawing's units.
    pub(super) fn x(&self, at: u64) -> f64 {
        self.share(at) * WIDTH
    }

    /// Where `at` is, in per cent of the width.
    pub(super) fn percent(&self, at: u64) -> f64 {
        self.share(at) * 100.0
    }

    fn share(&self, at: u64) -> f64 {
        at.min(self.duration) as f64 / self.duration as f64
    }

    /// The column that `at` falls into.
    pub(super) fn column(&self, at: u64) -> usize {
        column(at, self.duration, self.columns)
    }

    /// How long a column lasts, in ms, at least one.
    pub(super) fn column_millis(&self) -> u64 {
        (self.duration / self.columns as u64).max(1)
    }

    /// Round times to put labels at.
    pub(super) fn labels(&self) -> Vec<u64> {
        let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.saturating_pow(power)));
        let step = steps.take(60).find(|step| self.duration / step < MAX_LABELS).unwrap_or(self.duration);
        (0..=self.duration / step).map(|count| count * step).collect()
    }
}

fn column(at: u64, duration: u64, columns: usize) -> usize {
    let column = u128::from(at) * columns as u128 / u128::from(duration);
    usize::try_from(column).unwrap_or(columns).min(columns - 1)
}

/// How many of `times` fall into each column.
pub(super) fn columns(scale: &Scale, times: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut counts = vec![0; scale.columns];
    for at in times {
        if let Some(count) = counts.get_mut(scale.column(at)) {
            *count += 1;
        }
    }
    counts
}

/// A column as a closed shape: its left edge, and how far it reaches from `base` (negative is up).
pub(super) fn bar(path: &mut String, scale: &Scale, column: usize, base: f64, reach: f64) {
    let width = WIDTH / scale.columns as f64;
    let _ = write!(path, "M{:.1} {base:.1}h{:.1}v{reach:.1}h-{:.1}z", column as f64 * width, width * 0.8, width * 0.8);
}

/// Text as HTML and attributes hold it.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time as people say it, its unit on the same line.
pub(super) fn seconds(millis: u64) -> String {
    match millis {
        0 => "0\u{a0}s".to_owned(),
        1..1_000 => format!("{millis}\u{a0}ms"),
        1_000..120_000 if millis.is_multiple_of(1_000) => format!("{}\u{a0}s", millis / 1_000),
        1_000..120_000 => format!("{}.{}\u{a0}s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{}\u{a0}min {}\u{a0}s", millis / 60_000, millis / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_as_people_write_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 20, 1_000, 1_250, 125_000].map(seconds).map(|text| text.replace('\u{a0}', " ")),
            ["0 s", "20 ms", "1 s", "1.2 s", "2 min 5 s"]
        );
    }

    #[test]
    fn labels_are_round_few_and_within_the_run() {
        for duration in [1, 7, 450, 12_345, 60_000, 3_600_000, u64::MAX / 2] {
            let scale =
                Scale { duration, kills: Vec::new(), columns: MAX_COLUMNS, marks: Marks::Single, most_won: 1, most_lost: 1 };
            let labels = scale.labels();
            assert!((1..=MAX_LABELS as usize).contains(&labels.len()), "{duration}: {labels:?}");
            assert!(labels.iter().all(|label| *label <= duration));
            assert!(scale.column(duration) < MAX_COLUMNS);
        }
        assert_eq!(
            Scale {
                duration: 12_345,
                kills: Vec::new(),
                columns: MAX_COLUMNS,
                marks: Marks::Single,
                most_won: 1,
                most_lost: 1
            }
            .labels(),
            [0, 5_000, 10_000]
        );
    }
}
