//! What the page says in words and numbers: the verdict, the audit's counts, and the processes.

use std::fmt::Write;

use super::super::Role;
use super::super::audit::Verdict;
use super::super::events::Pages;
use super::super::history::{History, Tally};
use super::draw::{Scale, escaped, grouped, seconds};

/// How the run went, as a class of the style.
pub(super) fn state(history: &History) -> &'static str {
    match &history.verdict {
        Some(verdict) if verdict.is_clean() => "clean",
        Some(_) | None => "off",
    }
}

pub(super) fn headline(history: &History) -> String {
    match &history.verdict {
        None => "The run was not audited.".to_owned(),
        Some(verdict) => match verdict.findings_count {
            0 => "Nothing was lost.".to_owned(),
            1 => "One thing is off.".to_owned(),
            count => format!("{} things are off.", grouped(count)),
        },
    }
}

pub(super) fn lead(history: &History) -> String {
    let shape = history.shape;
    let kills: u64 = history.tallies.values().map(|tally| tally.kills).sum();
    let died = match kills {
        0 => "nobody was killed".to_owned(),
        1 => "one process was killed on the way and replaced".to_owned(),
        kills => format!("{kills} processes were killed on the way and replaced"),
    };
    format!(
        "{} writers moved money between {} accounts in one SlateDB store, each move a transaction, while another process \
         folded their log into the store; {died}. It took {}.",
        shape.writers,
        grouped(u64::from(shape.accounts)),
        seconds(Scale::of(history).duration),
    )
}

pub(super) fn figures(history: &History) -> [(String, &'static str); 6] {
    let sum = |of: fn(&Tally) -> u64| grouped(history.tallies.values().map(of).sum());
    let unknown = history.verdict.as_ref().map_or(0, |verdict| verdict.unknown_landed + verdict.unknown_never);
    let of = |pages: Pages| format!("{} of {}", grouped(pages.retired), grouped(pages.begun));
    let pages = history.pages.map_or("–".to_owned(), of);
    [
        (grouped(history.commits()), "commits"),
        (sum(|tally| tally.lost), "lost races, each tried again"),
        (sum(|tally| tally.kills), "kills"),
        (grouped(unknown), "unknown puts, resolved"),
        (sum(|tally| tally.folds), "folds"),
        (pages, "pages of the log retired"),
    ]
}

/// What was counted, claim by claim.
pub(super) fn audit(history: &History) -> String {
    let mut html = String::from("<section>\n<h2>The audit</h2>\n");
    let Some(verdict) = &history.verdict else {
        html.push_str("<p>No process audited this run, so nothing is claimed about it.</p>\n</section>\n");
        return html;
    };
    html.push_str("<dl class=\"claims\">\n");
    for (claim, numbers) in claims(verdict) {
        let _ = writeln!(html, "<dt>{claim}</dt><dd>{}</dd>", escaped(&numbers));
    }
    html.push_str("</dl>\n");
    match verdict.findings.is_empty() {
        true => html.push_str("<p class=\"verdict clean\">Clean. The total is unchanged, every acknowledged transfer is there exactly once, nothing was doubled, and it is known what became of every put.</p>\n"),
        false => {
            let _ = write!(html, "<p class=\"verdict off\">{}</p>\n<ul class=\"findings\">\n", escaped(&headline(history)));
            for finding in &verdict.findings {
                let _ = writeln!(html, "<li>{}</li>", escaped(&finding.to_string()));
            }
            let more = verdict.findings_count - verdict.findings.len() as u64;
            if more > 0 {
                let _ = writeln!(html, "<li>and {} more</li>", grouped(more));
            }
            html.push_str("</ul>\n");
        }
    }
    html.push_str("</section>\n");
    html
}

fn claims(verdict: &Verdict) -> [(&'static str, String); 4] {
    [
        ("All money", format!("{} before, {} after", grouped(verdict.total_before), grouped(verdict.total_after))),
        ("Transfers acknowledged", grouped(verdict.acknowledged)),
        ("Transfers in the store", grouped(verdict.found)),
        (
            "Puts nobody heard of",
            format!("{} landed, {} never did", grouped(verdict.unknown_landed), grouped(verdict.unknown_never)),
        ),
    ]
}

/// Who did what, as a table.
pub(super) fn processes(history: &History) -> String {
    let mut html = String::from(
        "<section>\n<h2>The processes</h2>\n<div class=\"scroll\">\n<table>\n<thead><tr><th scope=\"col\">process</th>\
         <th scope=\"col\">won</th><th scope=\"col\">lost</th><th scope=\"col\">unknown</th><th scope=\"col\">folds</th>\
         <th scope=\"col\">kills</th></tr></thead>\n<tbody>\n",
    );
    for (role, tally) in history.tallies.iter().filter(|(role, _)| **role != Role::Auditor) {
        let class = match role {
            Role::Writer(writer) => format!("swatch w{}", writer % super::COLOURS),
            Role::Folder | Role::Auditor => "swatch folder".to_owned(),
        };
        let _ = write!(html, "<tr><th scope=\"row\"><i class=\"{class}\"></i>{role}</th>");
        for count in [tally.commits, tally.lost, tally.unknown, tally.folds, tally.kills] {
            match count {
                0 => html.push_str("<td class=\"none\">–</td>"),
                count => {
                    let _ = write!(html, "<td>{}</td>", grouped(count));
                }
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    html
}
