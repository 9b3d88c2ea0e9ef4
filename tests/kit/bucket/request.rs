//! What a process asks of the bucket and what it is answered.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attributes, CopyMode, Error, GetOptions, ObjectMeta, PutMode, PutResult};

use crate::fingerprint::{Fingerprint, Hash128};

/// The name the bucket gives to every failure that says nothing about the object.
pub(crate) const STORE: &str = "simulated bucket";

/// A process of the world. The name stays when the process is killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u32);

/// The number of a request, in the order in which the bucket accepted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What kind of thing was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A put if absent.
    Create,
    /// A put without a condition.
    Overwrite,
    /// A put if the etag matches.
    Update,
    /// A get of content.
    Get,
    /// A get of metadata.
    Head,
    /// One page of a list.
    List,
    /// The delete of one object.
    Delete,
    /// A copy.
    Copy,
    /// The start of a multipart upload.
    UploadStart,
    /// One part of it.
    UploadPart,
    /// Its end, when the object appears.
    UploadComplete,
    /// Its end, when nothing appears.
    UploadAbort,
}

/// Operations that fail alike: faults have one set of rates a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationClass {
    /// Whatever leaves an object behind, and multipart uploads.
    Put,
    /// Reads of one object.
    Get,
    /// Pages of lists.
    List,
    /// Deletes.
    Delete,
}

impl Operation {
    /// The class whose fault rates apply.
    pub fn class(self) -> OperationClass {
        match self {
            Self::Create | Self::Overwrite | Self::Update | Self::Copy => OperationClass::Put,
            Self::UploadStart | Self::UploadPart | Self::UploadComplete | Self::UploadAbort => OperationClass::Put,
            Self::Get | Self::Head => OperationClass::Get,
            Self::List => OperationClass::List,
            Self::Delete => OperationClass::Delete,
        }
    }

    /// Whether the request can change an object, and so can land.
    pub(crate) fn changes(self) -> bool {
        match self {
            Self::Create | Self::Overwrite | Self::Update | Self::Copy => true,
            Self::UploadComplete | Self::Delete => true,
            Self::Get | Self::Head | Self::List => false,
            Self::UploadStart | Self::UploadPart | Self::UploadAbort => false,
        }
    }
}

/// How a page groups what it lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every object below the prefix.
    Whole,
    /// The prefix's own objects, and one entry for each folder below it.
    OneLevel,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Put { mode: PutMode, payload: Bytes, content: Hash128, attributes: Attributes },
    Get(Box<GetOptions>),
    Page(PageAsk),
    Delete,
    Copy { to: Path, mode: CopyMode },
    UploadStart { attributes: Attributes },
    UploadPart { upload: u64, index: usize, payload: Bytes },
    UploadComplete { upload: u64 },
    UploadAbort { upload: u64 },
}

/// One page of a walk: where it goes on, and what the walk saw before.
#[derive(Clone, Debug)]
pub(crate) struct PageAsk {
    pub(crate) depth: Depth,
    /// The first name that may be listed; none for the beginning.
    pub(crate) from: Option<String>,
    /// How many changes the bucket had seen when the walk's first page was read.
    pub(crate) first_seen: Option<u64>,
}

impl Ask {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Put { mode, .. } => match mode {
                PutMode::Create => Operation::Create,
                PutMode::Overwrite => Operation::Overwrite,
                PutMode::Update(_) => Operation::Update,
            },
            Self::Get(options) if options.head => Operation::Head,
            Self::Get(_) => Operation::Get,
            Self::Page(_) => Operation::List,
            Self::Delete => Operation::Delete,
            Self::Copy { .. } => Operation::Copy,
            Self::UploadStart { .. } => Operation::UploadStart,
            Self::UploadPart { .. } => Operation::UploadPart,
            Self::UploadComplete { .. } => Operation::UploadComplete,
            Self::UploadAbort { .. } => Operation::UploadAbort,
        }
    }

    /// Adds what tells this request from another of the same operation and path.
    pub(crate) fn record(&self, fingerprint: &mut Fingerprint) {
        match self {
            Self::Put { content, mode, .. } => {
                fingerprint.hash(*content);
                if let PutMode::Update(version) = mode {
                    fingerprint.text(version.e_tag.as_deref().unwrap_or(""));
                }
            }
            Self::Get(options) => {
                fingerprint.text(&options.range.as_ref().map(|range| format!("{range:?}")).unwrap_or_default());
            }
            Self::Page(page) => {
                fingerprint.text(page.from.as_deref().unwrap_or(""));
            }
            Self::Copy { to, .. } => {
                fingerprint.text(to.as_ref());
            }
            Self::UploadPart { upload, index, payload } => {
                fingerprint.number(*upload).number(*index as u64).hash(Hash128::of(payload));
            }
            Self::UploadComplete { upload } | Self::UploadAbort { upload } => {
                fingerprint.number(*upload);
            }
            Self::Delete | Self::UploadStart { .. } => {}
        }
    }
}

/// The content of one object as one get saw it.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) meta: ObjectMeta,
    pub(crate) attributes: Attributes,
    pub(crate) range: Range<u64>,
    pub(crate) bytes: Bytes,
    pub(crate) body: Body,
}

/// How the content arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Whole,
    /// The first half arrives, then an error.
    BreaksHalfway,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<ObjectMeta>,
    pub(crate) folders: Vec<Path>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
    /// How many changes the bucket had seen when the walk's first page was read.
    pub(crate) first_seen: u64,
}

/// A good answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Put(PutResult),
    Read(Box<Read>),
    Page(Page),
    Upload(u64),
    Done,
}

/// An answer as the caller gets it.
pub(crate) type Answer = Result<Reply, Error>;

/// Adds an answer's kind and content.
pub(crate) fn record_answer(answer: &Answer, fingerprint: &mut Fingerprint) {
    match answer {
        Ok(Reply::Put(put)) => fingerprint.number(1).text(put.e_tag.as_deref().unwrap_or("")),
        Ok(Reply::Read(read)) => fingerprint
            .number(2)
            .text(read.meta.e_tag.as_deref().unwrap_or(""))
            .number(read.range.start)
            .number(read.bytes.len() as u64)
            .number(u64::from(read.body == Body::Whole)),
        Ok(Reply::Page(page)) => {
            fingerprint.number(3).number(page.folders.len() as u64);
            for object in &page.objects {
                fingerprint.text(object.location.as_ref()).text(object.e_tag.as_deref().unwrap_or(""));
            }
            fingerprint.text(page.next.as_deref().unwrap_or(""))
        }
        Ok(Reply::Upload(upload)) => fingerprint.number(4).number(*upload),
        Ok(Reply::Done) => fingerprint.number(5),
        Err(error) => fingerprint.number(6).text(error_kind(error)),
    };
}

#[allow(clippy::wildcard_enum_match_arm, reason = "object_store's error may grow; the bucket makes only these")]
fn error_kind(error: &Error) -> &'static str {
    match error {
        Error::AlreadyExists { .. } => "already exists",
        Error::NotFound { .. } => "not found",
        Error::Precondition { .. } => "precondition",
        Error::NotModified { .. } => "not modified",
        Error::Generic { .. } => "generic",
        _ => "other",
    }
}

/// A failure that says nothing about the object: a time-out, a reset, a 5xx.
pub(crate) fn transient(what: &'static str) -> Error {
    Error::Generic { store: STORE, source: what.into() }
}

/// The answer to a create whose name is taken, and to any 409.
pub(crate) fn already_exists(path: &str) -> Error {
    Error::AlreadyExists { path: path.to_owned(), source: "the name is taken".into() }
}

/// The answer about an object that is not there.
pub(crate) fn not_found(path: &str) -> Error {
    Error::NotFound { path: path.to_owned(), source: "no such object".into() }
}

/// Who sent a request, and to what.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) id: RequestId,
    pub(crate) process: Process,
    pub(crate) operation: Operation,
    pub(crate) path: Arc<str>,
}
