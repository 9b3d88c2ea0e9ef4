//! What an object is for, told from a segment of its path.

use std::fmt;

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $segment:literal,)*) => {
        /// What an object is for: the first segment of its path that names one of these decides.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PathClass {
            $($(#[$doc])* $name,)*
            /// None of these.
            Other,
        }

        impl PathClass {
            /// The class of a path.
            pub fn of(path: &str) -> Self {
                for segment in path.split('/') {
                    match segment {
                        $($segment => return Self::$name,)*
                        _ => {}
                    }
                }
                Self::Other
            }

            fn segment(self) -> &'static str {
                match self {
                    $(Self::$name => $segment,)*
                    Self::Other => "other",
                }
            }
        }
    };
}

classes! {
    /// Slots of the log.
    Commits = "commits",
    /// Ledgers of retired pages.
    Retired = "retired",
    /// Adoption records.
    Adoption = "adoption",
    /// Records of takes.
    Takes = "takes",
    /// Probes of the store.
    Probe = "probe",
    /// SlateDB's manifests.
    Manifest = "manifest",
    /// SlateDB's sorted tables.
    Compacted = "compacted",
    /// SlateDB's native log, where guards live.
    Wal = "wal",
    /// SlateDB's boundary files.
    Gc = "gc",
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.segment())
    }
}
