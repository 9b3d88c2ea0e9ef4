//! The only door to the bucket: put-if-absent classified, reads that retry, lists, deletes. It does not know what a commit is.

mod path;
mod probe;
mod retry;
mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::environment::Environment;
use crate::error::{Corruption, Unavailable};
use crate::frame::{Damage, MAX_PLAIN_BYTES};

pub use path::{Folder, ObjectName};
pub use probe::{Distrusted, ProbeFailed};
pub use retry::{Deadline, DeadlinePassed, Pace};
pub use walk::{Walk, Walked};

/// The largest object that is ever read whole: the largest body, and room for its frame.
const MAX_OBJECT_BYTES: usize = MAX_PLAIN_BYTES + 1024;

/// How often an object that does not decode is read once more before it is called damaged. The bytes on the wire may have
/// been cut or flipped where the object was not.
const READS_BEFORE_DAMAGE: usize = 2;

/// How a put-if-absent was answered. Anything but the two plain answers is doubt: it may have landed, or land yet.
#[derive(Debug)]
pub enum Put {
    /// This put created the object.
    Created,
    /// The store says that the name is taken. By whom, and whether it still is, only a read tells: the same answer is given
    /// for a put that met its own first copy, and for one that met a delete.
    Exists,
    /// No answer, or one that proves nothing.
    Doubtful(Unavailable),
}

/// A store's folder in a bucket.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    root: Path,
    environment: Environment,
    pace: Pace,
}

impl Bucket {
    /// The folder `root` of `store`.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, environment: Environment, pace: Pace) -> Bucket {
        Bucket { store, root, environment, pace }
    }

    /// The time and randomness it works with.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// How it paces its requests.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The store underneath.
    pub fn object_store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A deadline that passes after the time that every call is given.
    pub fn deadline(&self) -> Deadline {
        Deadline::after(&self.environment, self.pace.call)
    }

    /// Puts an object if its name is free. One attempt.
    ///
    /// Dropping the future withdraws nothing: the put may still land.
    pub async fn create(&self, name: ObjectName, bytes: Bytes) -> Put {
        let path = name.path(&self.root);
        let options = PutOptions::from(PutMode::Create);
        let attempt = Deadline::after(&self.environment, self.pace.attempt);
        match attempt.bound(self.store.put_opts(&path, PutPayload::from_bytes(bytes), options)).await {
            Ok(Ok(_)) => Put::Created,
            // Some stores say "precondition failed" for a name that is taken.
            Ok(Err(Error::AlreadyExists { .. } | Error::Precondition { .. })) => Put::Exists,
            Ok(Err(source)) => Put::Doubtful(Unavailable::failed(Doing::Put(name), source)),
            Err(DeadlinePassed) => Put::Doubtful(Unavailable::silent(Doing::Put(name))),
        }
    }

    /// Puts an object if its name is free, again and again until something is there, and gives the bytes that are: these, or
    /// what another put there first.
    ///
    /// SUBTLE: "exists" proves nothing by itself. A store says so of a name that is free, when a delete or another put of it is
    /// under way; only what can be read is there.
    ///
    /// # Errors
    ///
    /// When the deadline passes first. The object may then be there, or come to be there.
    pub async fn create_settled(&self, name: ObjectName, bytes: Bytes, deadline: &Deadline) -> Result<Bytes, Unavailable> {
        let mut backoff = self.pace.backoff(&self.environment);
        loop {
            let doubt = match self.create_by(name, bytes.clone(), deadline).await {
                Put::Created => return Ok(bytes),
                Put::Exists => match self.read(name, deadline).await? {
                    Some(stored) => return Ok(stored),
                    None => Unavailable::silent(Doing::Put(name)),
                },
                Put::Doubtful(doubt) => doubt,
            };
            if !doubt.may_pass() || deadline.bound(backoff.wait()).await.is_err() {
                return Err(doubt);
            }
        }
    }

    /// One attempt at [`Bucket::create`] that is given up at the deadline of the call, if that is sooner than its own.
    async fn create_by(&self, name: ObjectName, bytes: Bytes, deadline: &Deadline) -> Put {
        let unanswered = Put::Doubtful(Unavailable::silent(Doing::Put(name)));
        deadline.bound(self.create(name, bytes)).await.unwrap_or(unanswered)
    }

    /// Reads a whole object, `None` when there is none. Retries until the deadline.
    ///
    /// # Errors
    ///
    /// A failed read, never a shorter answer; at once when the failure will not pass, such as a missing permission.
    pub async fn read(&self, name: ObjectName, deadline: &Deadline) -> Result<Option<Bytes>, Unavailable> {
        let mut backoff = self.pace.backoff(&self.environment);
        loop {
            let attempt = Deadline::after(&self.environment, self.pace.attempt);
            let read = async { attempt.bound(self.read_once(name)).await };
            let failure = match deadline.bound(read).await {
                Ok(Ok(Ok(found))) => return Ok(found),
                Ok(Ok(Err(source))) => Unavailable::failed(Doing::Read(name), source),
                Ok(Err(DeadlinePassed)) | Err(DeadlinePassed) => Unavailable::silent(Doing::Read(name)),
            };
            if !failure.may_pass() || deadline.bound(backoff.wait()).await.is_err() {
                return Err(failure);
            }
        }
    }

    async fn read_once(&self, name: ObjectName) -> Result<Option<Bytes>, Error> {
        match self.store.get_opts(&name.path(&self.root), GetOptions::default()).await {
            // An object that nobody of ours wrote is not pulled into memory; what is read of it is damage to whoever decodes it.
            Ok(result) if result.meta.size > MAX_OBJECT_BYTES as u64 => Ok(Some(Bytes::new())),
            Ok(result) => whole(result).await.map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads and decodes an object.
    ///
    /// # Errors
    ///
    /// A failed read, or damage that a second read shows again.
    pub async fn read_decoded<T>(
        &self,
        name: ObjectName,
        deadline: &Deadline,
        decode: impl Fn(Bytes) -> Result<T, Damage>,
    ) -> Result<Found<T>, Unavailable> {
        let mut damage = None;
        for _ in 0..READS_BEFORE_DAMAGE {
            match self.read(name, deadline).await?.map(&decode) {
                None => return Ok(Found::Absent),
                Some(Ok(object)) => return Ok(Found::Present(object)),
                Some(Err(found)) => damage = Some(found),
            }
        }
        Ok(damage.map_or(Found::Absent, |damage| Found::Damaged(Corruption::Damaged { object: name, damage })))
    }

    /// The names in the folder of `first`, from `first` on, in no order. Retries a listing that fails from the start.
    ///
    /// A listing is no snapshot: it may show a later name and miss an earlier one, so it only ever says how far to look.
    ///
    /// # Errors
    ///
    /// A failed listing, never a shorter one.
    pub async fn list_from(&self, first: ObjectName, deadline: &Deadline) -> Result<Vec<String>, Unavailable> {
        let listed = self.list_dated_from(first, usize::MAX, deadline).await?;
        Ok(listed.into_iter().map(|listed| listed.name).collect())
    }

    /// The same as [`Bucket::list_from`], up to `most` of them, with when the store says that each was written.
    ///
    /// # Errors
    ///
    /// A failed listing, never a shorter one.
    pub async fn list_dated_from(
        &self,
        first: ObjectName,
        most: usize,
        deadline: &Deadline,
    ) -> Result<Vec<Listed>, Unavailable> {
        let mut backoff = self.pace.backoff(&self.environment);
        loop {
            let failure = match deadline.bound(self.list_once(first, most)).await {
                Ok(Ok(listed)) => return Ok(listed),
                Ok(Err(failure)) => failure,
                Err(DeadlinePassed) => Unavailable::silent(Doing::List(first)),
            };
            if !failure.may_pass() || deadline.bound(backoff.wait()).await.is_err() {
                return Err(failure);
            }
        }
    }

    async fn list_once(&self, first: ObjectName, most: usize) -> Result<Vec<Listed>, Unavailable> {
        let folder = first.folder(&self.root);
        let file_name = first.file_name();
        // The offset is exclusive, and `!` sorts before every digit: `first` itself is listed.
        let before = folder.clone().join(format!("{}!", &file_name[..file_name.len().saturating_sub(1)]));
        let mut objects = self.store.list_with_offset(Some(&folder), &before);
        let mut listed = Vec::new();
        while listed.len() < most {
            // A long listing may take its time; a page of it that does not come is asked for again.
            let attempt = Deadline::after(&self.environment, self.pace.attempt);
            let object = match attempt.bound(objects.next()).await {
                Ok(Some(Ok(object))) => object,
                Ok(Some(Err(source))) => return Err(Unavailable::failed(Doing::List(first), source)),
                Ok(None) => return Ok(listed),
                Err(DeadlinePassed) => return Err(Unavailable::silent(Doing::List(first))),
            };
            if let Some(name) = object.location.filename().filter(|name| *name >= file_name.as_str()) {
                listed.push(Listed { name: name.to_owned(), written_millis: object.last_modified.timestamp_millis() });
            }
        }
        Ok(listed)
    }

    /// Deletes an object. One attempt; an object that is not there is as good as deleted.
    ///
    /// # Errors
    ///
    /// When the store does not say that it is gone.
    pub async fn delete(&self, name: ObjectName) -> Result<(), Unavailable> {
        let path = name.path(&self.root);
        let attempt = Deadline::after(&self.environment, self.pace.attempt);
        match attempt.bound(self.store.delete(&path)).await {
            Ok(Ok(()) | Err(Error::NotFound { .. })) => Ok(()),
            Ok(Err(source)) => Err(Unavailable::failed(Doing::Delete(name), source)),
            Err(DeadlinePassed) => Err(Unavailable::silent(Doing::Delete(name))),
        }
    }

    /// Deletes objects, in as few requests as the store can. Those that were not said to be gone are deleted again until the
    /// deadline.
    ///
    /// # Errors
    ///
    /// When the store does not say of all of them that they are gone. Any number of them may be.
    pub async fn delete_all(&self, names: Vec<ObjectName>, deadline: &Deadline) -> Result<(), Unavailable> {
        let mut left = names;
        let mut backoff = self.pace.backoff(&self.environment);
        loop {
            let Some(first) = left.first().copied() else { return Ok(()) };
            let failure = match deadline.bound(self.delete_once(&mut left)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(failure)) => failure,
                Err(DeadlinePassed) => Unavailable::silent(Doing::Delete(first)),
            };
            if !failure.may_pass() || deadline.bound(backoff.wait()).await.is_err() {
                return Err(failure);
            }
        }
    }

    /// Leaves those in `names` that were not said to be gone.
    async fn delete_once(&self, names: &mut Vec<ObjectName>) -> Result<(), Unavailable> {
        let paths: Vec<_> = names.iter().map(|name| name.path(&self.root)).collect();
        let mut answers = self.store.delete_stream(stream::iter(paths.clone()).map(Ok).boxed());
        let mut gone = BTreeSet::new();
        let mut failed = None;
        loop {
            let attempt = Deadline::after(&self.environment, self.pace.attempt);
            match attempt.bound(answers.next()).await {
                Ok(Some(Ok(path))) => drop(gone.insert(path)),
                Ok(Some(Err(Error::NotFound { path, .. }))) => drop(gone.insert(Path::from(path))),
                // The others may still be answered.
                Ok(Some(Err(source))) => failed = Some(source),
                Ok(None) | Err(DeadlinePassed) => break,
            }
        }
        let mut paths = paths.iter();
        names.retain(|_| paths.next().is_some_and(|path| !gone.contains(path)));
        match (names.first(), failed) {
            (None, _) => Ok(()),
            (Some(first), Some(source)) => Err(Unavailable::failed(Doing::Delete(*first), source)),
            (Some(first), None) => Err(Unavailable::silent(Doing::Delete(*first))),
        }
    }
}

/// An object that a listing showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name in its folder.
    pub name: String,
    /// When the store says that it was written, in ms since the Unix epoch.
    pub written_millis: i64,
}

impl fmt::Debug for Bucket {
    // The store itself is never formatted: its Debug may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket at {}", self.root)
    }
}

async fn whole(result: GetResult) -> Result<Bytes, Error> {
    let expected = result.meta.size;
    let bytes = result.bytes().await?;
    if bytes.len() as u64 == expected {
        return Ok(bytes);
    }
    let source = format!("expected {expected} bytes, found {}", bytes.len()).into();
    Err(Error::Generic { store: "bucket", source })
}

/// What a read found.
#[derive(Debug)]
pub enum Found<T> {
    /// Nothing under that name.
    Absent,
    /// The object.
    Present(T),
    /// Something that is not what its name says.
    Damaged(Corruption),
}

/// What was being done when the bucket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Putting an object.
    Put(ObjectName),
    /// Reading an object.
    Read(ObjectName),
    /// Listing a folder from an object on.
    List(ObjectName),
    /// Listing a folder and everything below it.
    Walk(Folder),
    /// Looking whether there is anything at all.
    Look,
    /// Deleting an object.
    Delete(ObjectName),
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Put(name) => write!(f, "put of {name}"),
            Doing::Read(name) => write!(f, "read of {name}"),
            Doing::List(name) => write!(f, "list from {name}"),
            Doing::Walk(folder) => write!(f, "list of {folder}"),
            Doing::Look => f.write_str("look for anything in the folder"),
            Doing::Delete(name) => write!(f, "delete of {name}"),
        }
    }
}
