//! A mutant: source patches kept as data. Each patch's text must be in its file exactly once.
//!
//! ```text
//! why: one line
//! seeds: 500
//! expect: red
//! file: commit-log/src/log/offer.rs
//! <<<<
//! the text
//! ====
//! what stands there instead
//! >>>>
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What the worlds must say of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// One of them is red.
    Red,
    /// None is red: the library refuses what the mutated client does, and says so.
    Refused,
}

#[derive(Debug)]
struct Patch {
    file: String,
    find: String,
    replace: String,
}

/// A mutant.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) seeds: u64,
    pub(crate) expected: Expected,
    patches: Vec<Patch>,
}

impl Mutant {
    /// Reads a mutant's file.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Mutant, String> {
        let bad = |what: &str| format!("mutant {name}: {what}");
        let field = |field: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(field)).ok_or_else(|| bad(&format!("no {field}")))?;
            Ok::<_, String>(value.trim().to_owned())
        };
        field("why:")?;
        let seeds = field("seeds:")?.parse().map_err(|_| bad("the seeds are no number"))?;
        let expected = match field("expect:")?.as_str() {
            "red" => Expected::Red,
            "refused" => Expected::Refused,
            other => return Err(bad(&format!("expects {other}"))),
        };
        let mut patches = Vec::new();
        for part in text.split("\nfile:").skip(1) {
            let (file, rest) = part.split_once("\n<<<<\n").ok_or_else(|| bad("a file without a patch"))?;
            let (find, rest) = rest.split_once("\n====\n").ok_or_else(|| bad("a patch without a replacement"))?;
            let (replace, _) = rest.split_once("\n>>>>").ok_or_else(|| bad("a patch without an end"))?;
            patches.push(Patch { file: file.trim().to_owned(), find: find.to_owned(), replace: replace.to_owned() });
        }
        Ok(Mutant { name: name.to_owned(), seeds, expected, patches })
    }

    /// The files that it changes.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.patches.iter().map(|patch| patch.file.as_str())
    }

    /// The changed texts, by file.
    pub(crate) fn apply(&self, workspace: &Path) -> Result<BTreeMap<String, String>, String> {
        let mut texts = BTreeMap::new();
        for Patch { file, find, replace } in &self.patches {
            let read = || fs::read_to_string(workspace.join(file)).map_err(|error| format!("{file}: {error}"));
            let text: String = texts.remove(file).map_or_else(read, Ok)?;
            let times = text.matches(find.as_str()).count();
            if times != 1 {
                return Err(format!("mutant {}: its text is in {file} {times} times, expected once", self.name));
            }
            texts.insert(file.clone(), text.replace(find.as_str(), replace));
        }
        Ok(texts)
    }
}
