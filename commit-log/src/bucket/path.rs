//! What every object of a store is called. The one place that spells names.

use std::fmt;

use object_store::path::{Path, PathPart};

use crate::identity::LogId;
use crate::slot::{Page, Sequence};

/// A folder under the store's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Folder {
    /// `adoption/`: adoption records.
    Adoption,
    /// `commits/`: slots, in a folder for each log.
    Commits,
    /// `retired/`: ledgers, in a folder for each log.
    Retired,
    /// `takes/`: the records of takes, in a folder for each log.
    Takes,
    /// `leaving/`: the records that took the store off a log.
    Leaving,
    /// `probe/`: what probes race for.
    Probe,
    /// `wal/`: SlateDB's own WAL folder, where guards stand.
    NativeWal,
    /// `manifest/`: SlateDB's manifests.
    Manifest,
}

impl Folder {
    fn name(self) -> &'static str {
        match self {
            Folder::Adoption => "adoption",
            Folder::Commits => "commits",
            Folder::Retired => "retired",
            Folder::Takes => "takes",
            Folder::Leaving => "leaving",
            Folder::Probe => "probe",
            Folder::NativeWal => "wal",
            Folder::Manifest => "manifest",
        }
    }

    /// Where it is, under the store's path `root`.
    pub(super) fn path(self, root: &Path) -> Path {
        root.clone().join(self.name())
    }

    /// The object of this folder with these parts of a path below it. `None` for anything that [`ObjectName::path`] does not
    /// write.
    pub(super) fn object(self, below: &[PathPart<'_>]) -> Option<ObjectName> {
        // Every number has as many digits as a page's.
        let number = |name: &str| Page::from_name(name).map(Page::get);
        let below: Vec<&str> = below.iter().map(AsRef::as_ref).collect();
        match (self, &below[..]) {
            (Folder::Adoption, [file]) => number(file).map(ObjectName::Adoption),
            (Folder::Commits, [log, file]) => Some(ObjectName::Slot(LogId::parse(log)?, Sequence::from_name(file)?)),
            (Folder::Retired, [log, file]) => Some(ObjectName::Ledger(LogId::parse(log)?, Page::from_name(file)?)),
            (Folder::Takes, [log, file]) => Some(ObjectName::Take(LogId::parse(log)?, number(file)?)),
            (Folder::Leaving, [file]) => LogId::parse(file).map(ObjectName::Leaving),
            (Folder::Probe, [file]) => number(file).map(ObjectName::Probe),
            (Folder::NativeWal, [file]) => number(file.strip_suffix(".sst")?).map(ObjectName::NativeWal),
            (Folder::Manifest, [file]) => number(file.strip_suffix(".manifest")?).map(ObjectName::Manifest),
            (_, _) => None,
        }
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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
            ObjectName::Adoption(_) => (Folder::Adoption, None),
            ObjectName::Slot(log, _) => (Folder::Commits, Some(log)),
            ObjectName::Ledger(log, _) => (Folder::Retired, Some(log)),
            ObjectName::Take(log, _) => (Folder::Takes, Some(log)),
            ObjectName::Leaving(_) => (Folder::Leaving, None),
            ObjectName::Probe(_) => (Folder::Probe, None),
            ObjectName::NativeWal(_) => (Folder::NativeWal, None),
            ObjectName::Manifest(_) => (Folder::Manifest, None),
        };
        let log = log.map(|log| log.to_string());
        let below = [Some(folder.name()), log.as_deref(), file];
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
    #[test]
    fn a_name_reads_back_from_its_folder_and_nothing_else_is_a_name() {
        let root = Path::from("lake/store");
        let log = LogId::from_bytes([0xa1; 16]);
        let names = [
            (Folder::Adoption, ObjectName::Adoption(1)),
            (Folder::Commits, ObjectName::Slot(log, Sequence::FIRST)),
            (Folder::Retired, ObjectName::Ledger(log, Page::new(0))),
            (Folder::Takes, ObjectName::Take(log, 3)),
            (Folder::Leaving, ObjectName::Leaving(log)),
            (Folder::Probe, ObjectName::Probe(u64::MAX)),
            (Folder::NativeWal, ObjectName::NativeWal(1)),
            (Folder::Manifest, ObjectName::Manifest(2)),
        ];
        let below = |folder: Folder, path: &Path| {
            let parts: Vec<_> = path.prefix_match(&folder.path(&root)).unwrap().collect();
            folder.object(&parts)
        };
        for (folder, name) in names {
            let path = name.path(&root);
            assert_eq!(below(folder, &path), Some(name));
            assert_eq!(below(folder, &path.clone().join("more")), None);
            assert_eq!(below(folder, &folder.path(&root).join("other")), None);
            assert_eq!(below(folder, &folder.path(&root)), None);
        }
    }
}
