//! The objects of the bucket and what each request does to them. Knows no time but the instant it is given, no
//! faults and no processes; every effect goes into the history.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::path::Path;
use object_store::{Attributes, CopyMode, Error, GetOptions, ObjectMeta, PutMode, PutResult, UpdateVersion};

use super::request::{
    Address, Answer, Ask, Body, Depth, Operation, Page, PageAsk, Read, Reply, STORE, already_exists, not_found, transient,
};
use super::uploads::Uploads;
use crate::fingerprint::Hash128;
use crate::history::{Change, Effect, History};

/// One stored object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its content.
    pub bytes: Bytes,
    /// Its content's hash.
    pub content: Hash128,
    /// The attributes and user metadata it was put with.
    pub attributes: Attributes,
    /// When it was put, by the bucket's own clock.
    pub modified: DateTime<Utc>,
    /// Its generation: its etag is this number in quotes, its version this number.
    pub generation: u64,
}

impl Object {
    fn meta(&self, path: &str) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(path),
            last_modified: self.modified,
            size: self.bytes.len() as u64,
            e_tag: Some(e_tag(self.generation)),
            version: Some(self.generation.to_string()),
        }
    }
}

fn e_tag(generation: u64) -> String {
    format!("\"{generation}\"")
}

/// How a store keeps to what it promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As S3, Azure and GCS do.
    #[default]
    Honest,
    /// A put-if-absent is put whatever is there, and so is a put-if-match.
    IgnoresConditions,
    /// Attributes and user metadata are accepted and forgotten.
    DropsMetadata,
}

/// New content on its way into the bucket.
struct Incoming {
    bytes: Bytes,
    content: Hash128,
    attributes: Attributes,
}

/// The instant of an effect, on the timeline and on the calendar.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) elapsed: Duration,
    pub(crate) calendar: DateTime<Utc>,
}

#[derive(Debug, Default)]
pub(crate) struct Objects {
    map: BTreeMap<Arc<str>, Object>,
    uploads: Uploads,
    generations: u64,
    pub(crate) dialect: Dialect,
    pub(crate) history: History,
}

impl Objects {
    /// The number of changes so far: two pages of a walk that see different numbers are not of one snapshot.
    pub(crate) fn changes(&self) -> u64 {
        self.history.effects().len() as u64
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Object> {
        self.map.get(path)
    }

    /// The objects whose path starts with `prefix`, by path.
    pub(crate) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Object)> {
        self.map
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(prefix))
    }

    /// Lets a request take effect.
    pub(crate) fn apply(&mut self, address: &Address, ask: &Ask, page_size: usize, moment: Moment) -> Answer {
        match ask {
            Ask::Put { mode, payload, content, attributes } => {
                let incoming = Incoming { bytes: payload.clone(), content: *content, attributes: attributes.clone() };
                self.put(address, mode, incoming, moment).map(Reply::Put)
            }
            Ask::Get(options) => self.read(&address.path, options),
            Ask::Page(page) => Ok(Reply::Page(self.page(&address.path, page, page_size))),
            Ask::Delete => {
                self.delete(address, moment);
                Ok(Reply::Done)
            }
            Ask::Copy { to, mode } => self.copy(address, to, *mode, moment),
            Ask::UploadStart { attributes } => Ok(Reply::Upload(self.uploads.start(attributes.clone()))),
            Ask::UploadPart { upload, index, payload } => {
                self.uploads.part(*upload, *index, payload.clone())?;
                Ok(Reply::Done)
            }
            Ask::UploadComplete { upload } => self.complete(address, *upload, moment).map(Reply::Put),
            Ask::UploadAbort { upload } => {
                self.uploads.abort(*upload);
                Ok(Reply::Done)
            }
        }
    }

    fn put(&mut self, address: &Address, mode: &PutMode, incoming: Incoming, moment: Moment) -> Result<PutResult, Error> {
        let path = &address.path;
        match (mode, self.map.get(path)) {
            _ if self.dialect == Dialect::IgnoresConditions => {}
            (PutMode::Create, Some(_)) => return Err(already_exists(path)),
            (PutMode::Update(wanted), found) => check_version(path, wanted, found)?,
            (PutMode::Create, None) | (PutMode::Overwrite, _) => {}
        }
        Ok(put_result(self.store(address, Arc::clone(path), incoming, moment)))
    }

    /// Puts content under a name without further conditions and returns its generation.
    fn store(&mut self, address: &Address, path: Arc<str>, incoming: Incoming, moment: Moment) -> u64 {
        let Incoming { bytes, content, mut attributes } = incoming;
        if self.dialect == Dialect::DropsMetadata {
            attributes = Attributes::new();
        }
        self.generations += 1;
        let generation = self.generations;
        let object = Object { bytes: bytes.clone(), content, attributes, modified: moment.calendar, generation };
        let former = self.map.insert(Arc::clone(&path), object);
        let change = former.map_or(Change::Created, |former| Change::Replaced { former: former.generation });
        let kept = (address.operation == Operation::Create).then(|| bytes.clone());
        self.history.append(Effect {
            number: 0,
            request: address.id,
            process: address.process,
            operation: address.operation,
            path,
            change,
            generation,
            content,
            size: bytes.len() as u64,
            bytes: kept,
            at: moment.elapsed,
        });
        generation
    }

    /// Deletes as S3 does: the delete of an absent object is done.
    fn delete(&mut self, address: &Address, moment: Moment) {
        let Some(former) = self.map.remove(&address.path) else {
            return;
        };
        self.history.append(Effect {
            number: 0,
            request: address.id,
            process: address.process,
            operation: address.operation,
            path: Arc::clone(&address.path),
            change: Change::Deleted { former: former.generation },
            generation: former.generation,
            content: former.content,
            size: former.bytes.len() as u64,
            bytes: None,
            at: moment.elapsed,
        });
    }

    fn copy(&mut self, address: &Address, to: &Path, mode: CopyMode, moment: Moment) -> Answer {
        let from = self.map.get(&address.path).ok_or_else(|| not_found(&address.path))?;
        let incoming = Incoming { bytes: from.bytes.clone(), content: from.content, attributes: from.attributes.clone() };
        if mode == CopyMode::Create && self.map.contains_key(to.as_ref()) {
            return Err(already_exists(to.as_ref()));
        }
        self.store(address, Arc::from(to.as_ref()), incoming, moment);
        Ok(Reply::Done)
    }

    /// The whole object appears at once; a second completion of the same upload is answered like the first.
    fn complete(&mut self, address: &Address, upload: u64, moment: Moment) -> Result<PutResult, Error> {
        if let Some(generation) = self.uploads.completed(upload) {
            return Ok(put_result(generation));
        }
        let (bytes, attributes) = self.uploads.assemble(upload)?;
        let incoming = Incoming { content: Hash128::of(&bytes), bytes, attributes };
        let generation = self.store(address, Arc::clone(&address.path), incoming, moment);
        self.uploads.finish(upload, generation);
        Ok(put_result(generation))
    }

    fn read(&self, path: &str, options: &GetOptions) -> Answer {
        let object = self.map.get(path).ok_or_else(|| not_found(path))?;
        let meta = object.meta(path);
        if options.version.is_some() && options.version != meta.version {
            return Err(not_found(path));
        }
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            None => 0..meta.size,
            Some(range) => {
                range.as_range(meta.size).map_err(|source| Error::Generic { store: STORE, source: Box::new(source) })?
            }
        };
        let wanted = if options.head { 0..0 } else { range.clone() };
        let bounds = usize::try_from(wanted.start).expect("fits")..usize::try_from(wanted.end).expect("fits");
        Ok(Reply::Read(Box::new(Read {
            bytes: object.bytes.slice(bounds),
            attributes: object.attributes.clone(),
            meta,
            range,
            body: Body::Whole,
        })))
    }

    /// One page of a list of what is below `folder`, in order, as it is at this instant.
    fn page(&self, folder: &str, ask: &PageAsk, page_size: usize) -> Page {
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let mut page = Page {
            objects: Vec::new(),
            folders: Vec::new(),
            next: None,
            first_seen: ask.first_seen.unwrap_or_else(|| self.changes()),
        };
        let mut from = match &ask.from {
            Some(from) if **from > *prefix => from.clone(),
            Some(_) | None => prefix.clone(),
        };
        while let Some((path, object)) = self.next_under(&prefix, &from) {
            if page.objects.len() + page.folders.len() == page_size {
                page.next = Some(from);
                break;
            }
            let inner = path[prefix.len()..].find('/').filter(|_| ask.depth == Depth::OneLevel);
            from = match inner {
                Some(length) => {
                    let name = &path[..prefix.len() + length];
                    page.folders.push(Path::from(name));
                    // '0' is the character after '/', so this is the first name past everything in that folder.
                    format!("{name}0")
                }
                None => {
                    page.objects.push(object.meta(path));
                    past(path)
                }
            };
        }
        page
    }

    fn next_under(&self, prefix: &str, from: &str) -> Option<(&Arc<str>, &Object)> {
        self.map.range::<str, _>((Bound::Included(from), Bound::Unbounded)).next().filter(|(path, _)| path.starts_with(prefix))
    }
}

/// The first name after `path`.
pub(crate) fn past(path: &str) -> String {
    format!("{path}\0")
}

fn put_result(generation: u64) -> PutResult {
    PutResult { e_tag: Some(e_tag(generation)), version: Some(generation.to_string()), extensions: Default::default() }
}

fn check_version(path: &str, wanted: &UpdateVersion, found: Option<&Object>) -> Result<(), Error> {
    let wanted = wanted.e_tag.as_ref().ok_or_else(|| transient("a conditional update needs an etag"))?;
    let found = found.map(|object| e_tag(object.generation));
    if found.as_ref() == Some(wanted) {
        return Ok(());
    }
    Err(Error::Precondition { path: path.to_owned(), source: format!("etag {wanted} was expected, found {found:?}").into() })
}
