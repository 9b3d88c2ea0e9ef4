//! The drawings over time: commits a second, a lane a process, and how far the folded part lies behind the head.

use std::fmt::Write;

use super::super::Role;
use super::super::history::{History, What};
use super::COLOURS;
use super::draw::{Marks, Scale, WIDTH, bar, columns, escaped, grouped, seconds};

/// The height of each drawing in pixels, the same as in its own units: only its width stretches.
const RATES_HEIGHT: f64 = 84.0;
const LANE_HEIGHT: f64 = 48.0;
const TAIL_HEIGHT: f64 = 84.0;

/// Where a lane's line is: wins stand on it, lost races hang from it.
const BASE: f64 = 30.0;

/// A row of the chart: what it is, what it counts, the drawing, and marks that do not stretch.
struct Row<'r> {
    name: &'r str,
    count: String,
    height: f64,
    description: String,
    drawing: String,
    marks: String,
}

impl Row<'_> {
    fn html(self, scale: &Scale) -> String {
        let Row { name, count, height, description, drawing, marks } = self;
        let mut guides = String::new();
        for at in scale.labels() {
            let _ = write!(guides, "<path class=\"grid\" d=\"M{:.1} 0v{height}\"/>", scale.x(at));
        }
        for at in &scale.kills {
            let _ = write!(guides, "<path class=\"when\" d=\"M{:.1} 0v{height}\"/>", scale.x(*at));
        }
        format!(
            "<div class=\"row\">\n<div class=\"label\"><b>{}</b><span>{}</span></div>\n<div class=\"track\">\
             <svg viewBox=\"0 0 {WIDTH} {height}\" height=\"{height}\" preserveAspectRatio=\"none\" role=\"img\">\
             <title>{}</title><desc>{}</desc>{guides}{drawing}</svg>{marks}</div>\n</div>\n",
            escaped(name),
            escaped(&count),
            escaped(name),
            escaped(&description),
        )
    }
}

fn times(history: &History, role: Role, wanted: impl Fn(What) -> bool) -> Vec<u64> {
    history.marks.iter().filter(|mark| mark.role == role && wanted(mark.what)).map(|mark| mark.at).collect()
}

fn is_commit(what: What) -> bool {
    matches!(what, What::Committed(_))
}

fn is_loss(what: What) -> bool {
    matches!(what, What::Lost(_))
}

/// How often everybody won, a column a piece of time, the writers on top of each other.
pub(super) fn rates(history: &History, scale: &Scale) -> String {
    let writers: Vec<_> =
        (0..history.shape.writers).map(|writer| columns(scale, times(history, Role::Writer(writer), is_commit))).collect();
    let sums: Vec<u64> =
        (0..scale.columns).map(|column| writers.iter().filter_map(|counts| counts.get(column)).sum()).collect();
    let highest = sums.iter().copied().max().unwrap_or(0).max(1);
    let unit = (RATES_HEIGHT - 6.0) / highest as f64;
    let mut below = vec![0.0; scale.columns];
    let mut drawing = String::new();
    for (writer, counts) in (0..).zip(&writers) {
        let mut path = String::new();
        for (column, (count, below)) in counts.iter().zip(&mut below).enumerate().filter(|(_, (count, _))| **count > 0) {
            let reach = *count as f64 * unit;
            bar(&mut path, scale, column, RATES_HEIGHT - *below, -reach);
            *below += reach;
        }
        let _ = write!(drawing, "<path class=\"area w{}\" d=\"{path}\"/>", colour(writer));
    }
    let a_second = |count: u64| u128::from(count) * 1_000;
    let peak = a_second(highest) * scale.columns as u128 / u128::from(scale.duration);
    let mean = a_second(history.commits()) / u128::from(scale.duration);
    let [peak, mean] = [peak, mean].map(|rate| grouped(u64::try_from(rate).unwrap_or(u64::MAX)));
    Row {
        name: "commits a second",
        count: format!("{mean} on average, {peak} at most"),
        height: RATES_HEIGHT,
        description: format!("Commits a second over time, stacked by writer: {mean} on average, {peak} at most."),
        drawing,
        marks: String::new(),
    }
    .html(scale)
}

/// One writer: wins up, lost races down.
pub(super) fn writer(history: &History, scale: &Scale, writer: u16) -> String {
    let role = Role::Writer(writer);
    let (won, lost) = (times(history, role, is_commit), times(history, role, is_loss));
    let colour = colour(writer);
    let mut drawing = dead(history, scale, role);
    let _ = write!(drawing, "<path class=\"base\" d=\"M0 {BASE}h{WIDTH}\"/>");
    match scale.marks {
        Marks::Single => {
            let (up, down) = (dots(scale, &won, BASE - 9.0), dots(scale, &lost, BASE + 9.0));
            let _ = write!(drawing, "<path class=\"dot w{colour}\" d=\"{up}\"/>");
            let _ = write!(drawing, "<path class=\"ring w{colour}\" d=\"{down}\"/><path class=\"hole\" d=\"{down}\"/>");
        }
        Marks::Counted => {
            let up = bars(scale, &won, BASE - 1.0, -(BASE - 5.0) / scale.most_won as f64);
            let down = bars(scale, &lost, BASE + 2.0, (LANE_HEIGHT - BASE - 4.0) / scale.most_lost as f64);
            let _ =
                write!(drawing, "<path class=\"area w{colour}\" d=\"{up}\"/><path class=\"outline w{colour}\" d=\"{down}\"/>");
        }
    }
    let (won, lost) = (grouped(won.len() as u64), grouped(lost.len() as u64));
    let ends = ends(history, role);
    Row {
        name: &role.to_string(),
        count: format!("{won} won, {lost} lost{ends}"),
        height: LANE_HEIGHT,
        description: format!("When {role} won a slot ({won} times) and lost a race for one ({lost} times){ends}."),
        drawing,
        marks: marks(history, scale, role),
    }
    .html(scale)
}

/// The folder: a bar a fold.
pub(super) fn folder(history: &History, scale: &Scale) -> String {
    let mut before = 0;
    let mut folds = Vec::new();
    for mark in &history.marks {
        if let What::Folded(through) = mark.what {
            folds.push((mark.at, through.saturating_sub(before)));
            before = before.max(through);
        }
    }
    let highest = folds.iter().map(|(_, slots)| *slots).max().unwrap_or(0).max(1);
    let mut drawing = dead(history, scale, Role::Folder);
    let base = LANE_HEIGHT - 6.0;
    let _ = write!(drawing, "<path class=\"base\" d=\"M0 {base}h{WIDTH}\"/><path class=\"fold\" d=\"");
    // A fold of a column's width is the least that is seen; more of them at one place are drawn over each other.
    for (at, slots) in &folds {
        let _ = write!(drawing, "M{:.1} {base}v-{:.1}", scale.x(*at), (*slots as f64 / highest as f64 * (base - 4.0)).max(1.0));
    }
    drawing.push_str("\"/>");
    let ends = ends(history, Role::Folder);
    let count = format!("{} folds{ends}", grouped(folds.len() as u64));
    Row {
        name: "folder",
        description: format!("When slots were folded into the store: {count}, at most {} slots at once.", grouped(highest)),
        count,
        height: LANE_HEIGHT,
        drawing,
        marks: marks(history, scale, Role::Folder),
    }
    .html(scale)
}

/// The tail: how many slots are past what is folded. It grows with commits and falls with folds.
pub(super) fn tail(history: &History, scale: &Scale) -> String {
    let points = tail_points(history, scale);
    let longest = points.iter().map(|(_, tail)| *tail).max().unwrap_or(0);
    let y = |tail: u64| TAIL_HEIGHT - tail as f64 / longest.max(1) as f64 * (TAIL_HEIGHT - 6.0);
    let mut line = format!("M0 {TAIL_HEIGHT:.1}");
    for (at, tail) in &points {
        let _ = write!(line, "L{:.1} {:.1}", scale.x(*at), y(*tail));
    }
    let drawing = format!("<path class=\"tail\" d=\"{line}V{TAIL_HEIGHT}H0z\"/><path class=\"edge\" d=\"{line}\"/>");
    let [longest, head, folded] = [longest, history.head, history.folded].map(grouped);
    Row {
        name: "tail, not yet folded",
        count: format!("{longest} slots at most; at the end head {head}, folded through {folded}"),
        height: TAIL_HEIGHT,
        description: format!(
            "How many slots were not yet folded, {longest} at most. The head came to {head}, the folds to {folded}."
        ),
        drawing,
        marks: String::new(),
    }
    .html(scale)
}

/// The tail's length when it begins a column, and before and after each fold.
fn tail_points(history: &History, scale: &Scale) -> Vec<(u64, u64)> {
    let (mut head, mut folded, mut column) = (0_u64, 0_u64, None);
    let mut points = Vec::new();
    for mark in &history.marks {
        match mark.what {
            What::Committed(sequence) | What::Lost(sequence) => {
                head = head.max(sequence);
                let at = Some(scale.column(mark.at));
                if at != column {
                    column = at;
                    points.push((mark.at, head.saturating_sub(folded)));
                }
            }
            What::Folded(through) => {
                points.push((mark.at, head.saturating_sub(folded)));
                (head, folded) = (head.max(through), folded.max(through));
                points.push((mark.at, head.saturating_sub(folded)));
            }
            What::Started | What::Killed | What::Ended | What::Unknown(_) | What::Resolved(..) => {}
        }
    }
    points.push((scale.duration, head.saturating_sub(folded)));
    // Processes tell in their own order; a line goes one way.
    points.sort_by_key(|(at, _)| *at);
    points
}

/// The time below everything.
pub(super) fn axis(scale: &Scale) -> String {
    let mut html =
        String::from("<div class=\"row axis\" aria-hidden=\"true\">\n<div class=\"label\"></div>\n<div class=\"track\">");
    for at in scale.labels() {
        // The last label ends where the run does, instead of leaving the page.
        let class = if scale.percent(at) > 94.0 { " class=\"last\"" } else { "" };
        let _ = write!(html, "<span{class} style=\"left:{:.2}%\">{}</span>", scale.percent(at), seconds(at));
    }
    html.push_str("</div>\n</div>\n");
    html
}

fn colour(writer: u16) -> u16 {
    writer % COLOURS
}

fn dots(scale: &Scale, times: &[u64], y: f64) -> String {
    let mut path = String::new();
    for at in times {
        let _ = write!(path, "M{:.1} {y}h0", scale.x(*at));
    }
    path
}

/// A bar in every column that counts something, `unit` for each (negative is up).
fn bars(scale: &Scale, times: &[u64], base: f64, unit: f64) -> String {
    let mut path = String::new();
    for (column, count) in columns(scale, times.iter().copied()).iter().enumerate().filter(|(_, count)| **count > 0) {
        bar(&mut path, scale, column, base, *count as f64 * unit);
    }
    path
}

/// From each kill to the next start, or to the end: nobody was there.
fn dead(history: &History, scale: &Scale, role: Role) -> String {
    let mut html = String::new();
    let mut since = None;
    let mut band = |from: u64, to: u64| {
        let (from, to) = (scale.x(from), scale.x(to));
        let _ =
            write!(html, "<rect class=\"dead\" x=\"{from:.1}\" y=\"0\" width=\"{:.1}\" height=\"{LANE_HEIGHT}\"/>", to - from);
    };
    for mark in history.marks.iter().filter(|mark| mark.role == role) {
        match mark.what {
            What::Killed => since = Some(mark.at),
            What::Started => since.take().into_iter().for_each(|from| band(from, mark.at)),
            What::Ended | What::Committed(_) | What::Lost(_) | What::Unknown(_) | What::Resolved(..) | What::Folded(_) => {}
        }
    }
    since.into_iter().for_each(|from| band(from, scale.duration));
    html
}

/// Kills and the starts after them.
fn marks(history: &History, scale: &Scale, role: Role) -> String {
    let mut html = String::new();
    let mut killed = false;
    for mark in history.marks.iter().filter(|mark| mark.role == role) {
        let shape = match mark.what {
            What::Killed => {
                killed = true;
                "kill\" viewBox=\"0 0 16 16\" role=\"img\"><title>killed</title><path class=\"cross\" d=\"M3 3l10 10M13 3l-10 10\"/>"
            }
            What::Started if killed => {
                "start\" viewBox=\"0 0 16 16\" role=\"img\"><title>successor</title><path class=\"again\" d=\"M4 3l9 5l-9 5z\"/>"
            }
            What::Started | What::Ended | What::Committed(_) | What::Lost(_) => continue,
            What::Unknown(_) | What::Resolved(..) | What::Folded(_) => continue,
        };
        let _ = write!(html, "<svg style=\"left:{:.2}%\" class=\"mark {shape}</svg>", scale.percent(mark.at));
    }
    html
}

/// The kills of a role in words, with when its successor was there.
fn ends(history: &History, role: Role) -> String {
    match times(history, role, |what| what == What::Killed)[..] {
        [] => String::new(),
        [at] => format!("; killed at {}", seconds(at)),
        ref more => format!("; killed {} times", more.len()),
    }
}
