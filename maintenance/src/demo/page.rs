//! The report of a run: one HTML page that needs nothing else, with a picture of who won which slot, kills, and folds.

mod draw;
mod lanes;
mod words;

use std::fmt::Write;

use super::Role;
use super::history::{History, What};
use draw::{Marks, Scale, escaped, grouped};

const STYLE: &str = include_str!("page/style.css");

/// The slots that the ribbon shows, each as one cell: a little more than a usual demo has.
pub const MAX_RIBBON_SLOTS: u64 = 6_000;

/// The most columns in which commits are counted over time: each is a few pixels on a wide screen, one on a phone.
pub const MAX_COLUMNS: usize = 200;

/// The fewest columns, for runs of few commits: with more, most would count none.
const MIN_COLUMNS: usize = 40;

/// The commits that a column should count on average, so that its height says something.
const COMMITS_A_COLUMN: usize = 10;

/// The slots won or lost that a lane draws one by one: about a mark's width apart on a wide screen. With more in any lane,
/// every lane counts them in columns.
pub const MAX_SINGLE_MARKS: u64 = 100;

/// The colours of writers. With more writers they repeat; every lane has its name beside it.
const COLOURS: u16 = 8;

/// What the page says of where and how the demo ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The store, as it may be shown.
    pub store: String,
    /// The command that does the same again.
    pub command: String,
}

/// Renders the page.
pub fn render(history: &History, heading: &Heading) -> String {
    let scale = Scale::of(history);
    let mut page = String::new();
    let title = words::headline(history);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // Proof, kept by the browser, that the page asks nobody for anything.
    page.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    put(
        &mut page,
        format_args!(
            "<title>{} · commit-log demo</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
            escaped(&title)
        ),
    );
    put(&mut page, format_args!("{}", header(history, &title)));
    put(&mut page, format_args!("{}", picture(history, &scale)));
    put(&mut page, format_args!("{}", ribbon(history)));
    put(&mut page, format_args!("<div class=\"pair\">\n{}{}</div>\n", words::audit(history), words::processes(history)));
    put(&mut page, format_args!("{}</main>\n</body>\n</html>\n", footer(history, heading)));
    page
}

/// Writing to a string does not fail.
fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

fn header(history: &History, title: &str) -> String {
    let state = words::state(history);
    let mut html = format!(
        "<header>\n<p class=\"over\">commit-log demo</p>\n<h1 class=\"{state}\">{}</h1>\n<p class=\"lead\">{}</p>\n<dl class=\"figures\">\n",
        escaped(title),
        escaped(&words::lead(history)),
    );
    for (figure, what) in words::figures(history) {
        put(&mut html, format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(what), escaped(&figure)));
    }
    html.push_str("</dl>\n</header>\n");
    html
}

fn picture(history: &History, scale: &Scale) -> String {
    let mut html = String::from("<section>\n<h2>The run</h2>\n");
    html.push_str(&legend(history, scale.marks));
    html.push_str("<div class=\"chart\">\n");
    html.push_str(&lanes::rates(history, scale));
    for writer in 0..history.shape.writers {
        html.push_str(&lanes::writer(history, scale, writer));
    }
    html.push_str(&lanes::folder(history, scale));
    html.push_str(&lanes::tail(history, scale));
    html.push_str(&lanes::axis(scale));
    html.push_str("</div>\n");
    html.push_str("<p class=\"note\">");
    if scale.marks == Marks::Counted {
        let wide = scale.column_millis();
        put(&mut html, format_args!("Lanes count in columns of {wide} ms, all at one scale."));
    }
    if history.dropped > 0 {
        put(&mut html, format_args!(" {} marks were counted and are not drawn.", grouped(history.dropped)));
    }
    html.push_str("</p>\n</section>\n");
    html
}

fn legend(history: &History, marks: Marks) -> String {
    let mut html = String::from("<ul class=\"legend\">\n");
    let [won, lost] = match marks {
        Marks::Single => [
            ("<path class=\"ink\" d=\"M8 8h0\" stroke-width=\"8\"/>", "won a slot, in the writer’s colour"),
            ("<circle class=\"hollow\" cx=\"8\" cy=\"8\" r=\"3\"/>", "lost a race for one"),
        ],
        Marks::Counted => [
            ("<path class=\"area w0\" d=\"M2 8v-4h5v4zM8 8v-6h5v6z\"/>", "slots won, in the writer’s colour"),
            ("<path class=\"outline w0\" d=\"M2 8v6h5v-6zM8 8v4h5v-4z\"/>", "lost races for them"),
        ],
    };
    let entries = [
        won,
        lost,
        ("<path class=\"cross\" d=\"M3 3l10 10M13 3l-10 10\"/>", "killed"),
        ("<path class=\"again\" d=\"M4 3l9 5l-9 5z\"/>", "its successor starts"),
        ("<path class=\"fold\" d=\"M8 14v-12\" stroke-width=\"5\"/>", "a fold, as high as its slots"),
    ];
    for (shape, text) in entries {
        put(
            &mut html,
            format_args!(
                "<li><svg width=\"16\" height=\"16\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">{shape}</svg>{text}</li>\n"
            ),
        );
    }
    if history.shape.writers > COLOURS {
        html.push_str("<li>colours repeat after eight writers</li>\n");
    }
    html.push_str("</ul>\n");
    html
}

/// Slot after slot, a cell in its winner's colour.
fn ribbon(history: &History) -> String {
    const CELL: u64 = 10;
    let shown = history.head.min(MAX_RIBBON_SLOTS);
    // Few slots get larger cells.
    let (a_row, in_words) = match shown {
        0..=500 => (50, "fifty"),
        501..=2_000 => (100, "a hundred"),
        _ => (200, "two hundred"),
    };
    let rows = shown.div_ceil(a_row).max(1);
    let mut paths = vec![String::new(); usize::from(COLOURS.min(history.shape.writers.max(1)))];
    for mark in &history.marks {
        let (What::Committed(sequence), Role::Writer(writer)) = (mark.what, mark.role) else { continue };
        if let (Some(at), Some(path)) = (sequence.checked_sub(1), paths.get_mut(usize::from(writer % COLOURS)))
            && at < shown
        {
            put(path, format_args!("M{} {}h8", at % a_row * CELL + 1, at / a_row * CELL + CELL / 2));
        }
    }
    let size = (a_row * CELL, rows * CELL);
    let mut html = format!(
        "<section>\n<h2>The log, slot by slot</h2>\n<svg class=\"ribbon\" viewBox=\"0 0 {} {}\" role=\"img\">\n<title>Who won which slot</title>\n<desc>{} cells, {in_words} a row, each in the colour of the writer that won the slot.</desc>\n",
        size.0, size.1, shown,
    );
    let full = shown / a_row;
    put(&mut html, format_args!("<path class=\"cells\" d=\""));
    for row in 0..full {
        put(&mut html, format_args!("M0 {}h{}", row * CELL + CELL / 2, size.0));
    }
    if !shown.is_multiple_of(a_row) {
        put(&mut html, format_args!("M0 {}h{}", full * CELL + CELL / 2, shown % a_row * CELL));
    }
    html.push_str("\"/>\n");
    for (writer, path) in paths.iter().enumerate() {
        put(&mut html, format_args!("<path class=\"cell w{writer}\" d=\"{path}\"/>\n"));
    }
    let which = match shown == history.head {
        true => format!("All {} slots", grouped(shown)),
        false => format!("The first {} of {} slots", grouped(shown), grouped(history.head)),
    };
    let retired = history.pages.and_then(|pages| pages.through).map_or(String::new(), |through| {
        format!(
            " Slots through {} are retired: of each page of them only a ledger is left, which says who won.",
            grouped(through)
        )
    });
    put(
        &mut html,
        format_args!(
            "</svg>\n<p class=\"note\">{which}, {in_words} a row. Grey: a slot without a transfer, such as the first, which opens the accounts.{retired}</p>\n</section>\n"
        ),
    );
    html
}

fn footer(history: &History, heading: &Heading) -> String {
    format!(
        "<footer>\n<p>Again: <code>{}</code></p>\n<p>Store <code>{}</code>, seed {}.</p>\n</footer>\n",
        escaped(&heading.command),
        escaped(&heading.store),
        history.shape.seed,
    )
}

#[cfg(test)]
mod tests;
