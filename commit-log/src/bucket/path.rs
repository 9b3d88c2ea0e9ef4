//! What every object of a store is called. The one place that spells names.

use std::fmt;

use object_store::path::{Path, PathPart};

use crate::identity::LogId;
use crate::slot::{Page, Sequence};

/// The name of an object, under the store's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectName {
    /// `adoption/<n>`: an adoption record.
    Adoption(u64),
    /// `commits/<log>/<sequence>`: a slot.
    Slot(LogId, Sequence),
    /// `retired/<log>/<page>`: the ledger of a page.
    Ledger(LogId, Page),
    /// `takes/<log>/<epoch>`: the record of one take.
    Take(LogId, u64),
    /// `leaving/<log>`: the record that took the store off the log.
    Leaving(LogId),
    /// `probe/<random>`: an object that a probe races for.
    Probe(u64),
    /// `wal/<id>.sst`: an object in SlateDB's own WAL folder.
    NativeWal(u64),
    /// `manifest/<id>.manifest`: one of SlateDB's manifests.
    Manifest(u64),
}

impl ObjectName {
    /// The folder it is in, under the store's path `root`.
    pub fn folder(self, root: &Path) -> Path {
        self.under(root, None)
    }

    /// Its name in that folder.
    pub fn file_name(self) -> String {
        match self {
            ObjectName::Adoption(number) | ObjectName::Take(_, number) | ObjectName::Probe(number) => format!("{number:020}"),
            ObjectName::Slot(_, sequence) => sequence.name(),
            ObjectName::Ledger(_, page) => page.name(),
            ObjectName::Leaving(log) => log.to_string(),
            ObjectName::NativeWal(id) => format!("{id:020}.sst"),
            ObjectName::Manifest(id) => format!("{id:020}.manifest"),
        }
    }

    /// Where it is, under the store's path `root`.
    pub fn path(self, root: &Path) -> Path {
        self.under(root, Some(&self.file_name()))
    }

    /// One string is written for the whole path: every read makes one.
    fn under(self, root: &Path, file: Option<&str>) -> Path {
        let (folder, log) = match self {
            ObjectName::Adoption(_) => ("adoption", None),
            ObjectName::Slot(log, _) => ("commits", Some(log)),
            ObjectName::Ledger(log, _) => ("retired", Some(log)),
            ObjectName::Take(log, _) => ("takes", Some(log)),
            ObjectName::Leaving(_) => ("leaving", None),
            ObjectName::Probe(_) => ("probe", None),
            ObjectName::NativeWal(_) => ("wal", None),
            ObjectName::Manifest(_) => ("manifest", None),
        };
        let log = log.map(|log| log.to_string());
        let below = [Some(folder), log.as_deref(), file];
        root.parts().chain(below.into_iter().flatten().map(PathPart::from)).collect()
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectName::Adoption(number) => write!(f, "adoption record {number}"),
            ObjectName::Slot(_, sequence) => write!(f, "slot {sequence}"),
            ObjectName::Ledger(_, page) => write!(f, "ledger of page {page}"),
            ObjectName::Take(_, epoch) => write!(f, "take record {epoch}"),
            ObjectName::Leaving(_) => write!(f, "leaving record"),
            ObjectName::Probe(number) => write!(f, "probe {number}"),
            ObjectName::NativeWal(id) => write!(f, "native WAL file {id}"),
            ObjectName::Manifest(id) => write!(f, "manifest {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_part_of_the_format() {
        let root = Path::from("lake/store");
        let log = LogId::from_bytes([0xa1; 16]);
        let names = [
            ObjectName::Adoption(1),
            ObjectName::Slot(log, Sequence::FIRST),
            ObjectName::Ledger(log, Page::new(0)),
            ObjectName::Take(log, 3),
            ObjectName::Leaving(log),
            ObjectName::NativeWal(1),
            ObjectName::Manifest(2),
        ];
        let paths = names.map(|name| name.path(&root).to_string());
        assert_eq!(
            paths,
            [
                "lake/store/adoption/00000000000000000001",
                "lake/store/commits/a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1/00000000000000000001",
                "lake/store/retired/a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1/00000000000000000000",
                "lake/store/takes/a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1/00000000000000000003",
                "lake/store/leaving/a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1",
                "lake/store/wal/00000000000000000001.sst",
                "lake/store/manifest/00000000000000000002.manifest",
            ]
        );
    }
}
