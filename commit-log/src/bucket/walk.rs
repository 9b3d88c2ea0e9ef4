//! Walking through a whole folder, in batches: for whoever counts or deletes what is there, whatever its log.

use std::fmt;

use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::PathPart;
use object_store::{Error, ObjectMeta};

use super::{Bucket, Deadline, DeadlinePassed, Doing, Folder, ObjectName};
use crate::error::Unavailable;

/// How many names a batch has at most: what S3 deletes in one request.
const BATCH: usize = 1000;

/// An object that a walk met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Its name.
    pub name: ObjectName,
    /// Its size in bytes, as listed.
    pub bytes: u64,
}

/// A walk through one folder and all below it. One batch is in memory at a time.
pub struct Walk {
    bucket: Bucket,
    folder: Folder,
    state: State,
}

enum State {
    Before,
    Within(BoxStream<'static, Result<ObjectMeta, Error>>),
    After,
}

impl Bucket {
    /// Walks through `folder`. No request before the first batch is asked for.
    pub fn walk(&self, folder: Folder) -> Walk {
        Walk { bucket: self.clone(), folder, state: State::Before }
    }

    /// Whether there is nothing at all under the store's path.
    ///
    /// # Errors
    ///
    /// A failed listing, never "nothing".
    pub async fn is_vacant(&self, deadline: &Deadline) -> Result<bool, Unavailable> {
        let mut backoff = self.pace.backoff(&self.environment);
        loop {
            let mut objects = self.store.list(Some(&self.root));
            let attempt = Deadline::after(&self.environment, self.pace.attempt);
            let failure = match deadline.bound(attempt.bound(objects.next())).await {
                Ok(Ok(None)) => return Ok(true),
                Ok(Ok(Some(Ok(_)))) => return Ok(false),
                Ok(Ok(Some(Err(source)))) => Unavailable::failed(Doing::Look, source),
                Ok(Err(DeadlinePassed)) | Err(DeadlinePassed) => Unavailable::silent(Doing::Look),
            };
            if !failure.may_pass() || deadline.bound(backoff.wait()).await.is_err() {
                return Err(failure);
            }
        }
    }
}

impl Walk {
    /// The next objects that bear names of ours; others are passed over. `None` at the end. In the order in which the store
    /// lists them.
    ///
    /// A listing that fails begins again, so a name may come twice. Each batch has the time of one call.
    ///
    /// # Errors
    ///
    /// A failed listing, never a shorter one. Then the walk begins again.
    pub async fn next(&mut self) -> Result<Option<Vec<Walked>>, Unavailable> {
        let deadline = self.bucket.deadline();
        let mut backoff = self.bucket.pace.backoff(&self.bucket.environment);
        loop {
            let failure = match deadline.bound(self.fill()).await {
                Ok(Ok(batch)) => return Ok((!batch.is_empty()).then_some(batch)),
                Ok(Err(failure)) => failure,
                Err(DeadlinePassed) => Unavailable::silent(Doing::Walk(self.folder)),
            };
            self.state = State::Before;
            if !failure.may_pass() || deadline.bound(backoff.wait()).await.is_err() {
                return Err(failure);
            }
        }
    }

    /// A batch that is full, or the last one.
    async fn fill(&mut self) -> Result<Vec<Walked>, Unavailable> {
        let (bucket, folder) = (&self.bucket, self.folder);
        let path = folder.path(&bucket.root);
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let objects = match &mut self.state {
                State::After => break,
                State::Within(objects) => objects,
                State::Before => {
                    self.state = State::Within(bucket.store.list(Some(&path)));
                    continue;
                }
            };
            let attempt = Deadline::after(&bucket.environment, bucket.pace.attempt);
            match attempt.bound(objects.next()).await {
                Ok(Some(Ok(object))) => {
                    let below: Option<Vec<PathPart<'_>>> = object.location.prefix_match(&path).map(Iterator::collect);
                    let name = below.and_then(|below| folder.object(&below));
                    batch.extend(name.map(|name| Walked { name, bytes: object.size }));
                }
                Ok(Some(Err(source))) => return Err(Unavailable::failed(Doing::Walk(folder), source)),
                Ok(None) => self.state = State::After,
                Err(DeadlinePassed) => return Err(Unavailable::silent(Doing::Walk(folder))),
            }
        }
        Ok(batch)
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Walk through {} of {:?}", self.folder, self.bucket)
    }
}
