//! The options of a verb: `--name value` pairs.

use std::collections::BTreeMap;

/// What was given.
#[derive(Debug, Default)]
pub(crate) struct Options(BTreeMap<String, String>);

impl Options {
    /// Reads pairs of a name and a value.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = BTreeMap::new();
        while let Some(argument) = arguments.next() {
            let name = argument.strip_prefix("--").ok_or_else(|| format!("expected an option, found {argument}"))?;
            let value = arguments.next().ok_or_else(|| format!("--{name} needs a value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Options(options))
    }

    /// The value of an option.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of an option that is a number, or what it is unless given.
    pub(crate) fn number(&self, name: &str, otherwise: u64) -> Result<u64, String> {
        self.text(name).map_or(Ok(otherwise), |text| text.parse().map_err(|_| format!("--{name} {text} is no number")))
    }
}
