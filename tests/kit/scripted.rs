//! The scripted bucket: a wrapper around any store that counts every request exactly, logs them in order, and lets
//! a test decide the fate of the n-th one that matches.
//!
//! Unlike the simulated bucket, a request lives in its caller's future: dropping the caller drops the request. A list
//! counts as one request, which begins at its first poll and ends with the stream.

mod path_class;
mod script;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::pending;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use tokio::sync::Notify;

pub use path_class::PathClass;
pub use script::{Counts, Fate, Overlap, Request};

use crate::bucket::Operation;
use script::Script;

/// How many deletes of one stream are under way at once, as object_store's own default has it.
const DELETES_AT_ONCE: usize = 10;

/// A store with a script. Clones share it.
#[derive(Clone, Debug)]
pub struct ScriptedBucket {
    inner: Arc<dyn ObjectStore>,
    stage: Arc<Stage>,
}

#[derive(Debug, Default)]
struct Stage {
    script: Mutex<Script>,
    changed: Notify,
}

impl Stage {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    async fn until(&self, holds: impl Fn(&Script) -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds(&self.script()) {
                return;
            }
            changed.await;
        }
    }
}

/// A place in the log, to count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

impl ScriptedBucket {
    /// Puts a script, empty so far, on a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        let stage = Arc::default();
        Self { inner, stage }
    }

    /// Every request so far, in the order in which they began.
    pub fn log(&self) -> Vec<Request> {
        self.stage.script().log.clone()
    }

    /// Where the log ends now.
    pub fn mark(&self) -> Mark {
        Mark(self.stage.script().log.len())
    }

    /// The requests since `mark`, in order.
    pub fn log_since(&self, mark: Mark) -> Vec<Request> {
        self.stage.script().log[mark.0..].to_vec()
    }

    /// How often each operation met each class, over all.
    pub fn counts(&self) -> Counts {
        self.counts_since(Mark(0))
    }

    /// How often each operation met each class since `mark`. What did not happen is not in it.
    pub fn counts_since(&self, mark: Mark) -> Counts {
        self.stage.script().counts_since(mark.0)
    }

    /// How requests of a class overlapped since the beginning, or since [`ScriptedBucket::reset_overlaps`].
    pub fn overlap(&self, class: PathClass) -> Overlap {
        self.stage.script().overlaps.get(&class).copied().unwrap_or_default()
    }

    /// Counts rounds and the most in flight afresh.
    pub fn reset_overlaps(&self) {
        for overlap in self.stage.script().overlaps.values_mut() {
            overlap.rounds = 0;
            overlap.most_in_flight = overlap.in_flight;
        }
    }

    /// Decides the fate of the `nth` request (from 1, counted from now) that passes `test`.
    pub fn script(&self, nth: u64, test: impl Fn(&Request) -> bool + Send + 'static, fate: Fate) -> Cue {
        let rule = self.stage.script().add(nth, Box::new(test), fate);
        Cue { stage: Arc::clone(&self.stage), rule }
    }

    /// The one door, which every method of the trait comes through: logs the request and waits as long as its fate
    /// holds it back. Fails if its fate is to fail.
    async fn begin(&self, operation: Operation, path: &str) -> Result<Begun> {
        let request = Request { operation, path: path.to_owned() };
        let class = request.class();
        let met = self.stage.script().begin(request);
        // Counts as under way while it is held back, too.
        let kept = Begun { under_way: UnderWay { stage: Arc::clone(&self.stage), class }, answer: AnswerFate::Kept };
        self.stage.changed.notify_waiters();
        match met {
            None => Ok(kept),
            Some((_, Fate::Fail)) => Err(scripted()),
            Some((_, Fate::LoseAnswer)) => Ok(Begun { answer: AnswerFate::Lost, ..kept }),
            Some((_, Fate::Hang)) => pending().await,
            Some((rule, Fate::Hold)) => {
                self.stage.until(|script| script.rules[rule].released).await;
                Ok(kept)
            }
        }
    }

    /// A list that is asked for once its fate is decided, and is under way until it ends or is dropped.
    fn begin_list(
        &self,
        prefix: Option<&Path>,
        real: impl FnOnce(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let this = self.clone();
        let path = prefix.map_or_else(String::new, ToString::to_string);
        let start = async move {
            match this.begin(Operation::List, &path).await.and_then(Begun::keep) {
                Err(error) => stream::iter([Err(error)]).boxed(),
                Ok(under_way) => real(&*this.inner)
                    .inspect(move |_| {
                        let _held_by_the_stream = &under_way;
                    })
                    .boxed(),
            }
        };
        start.flatten_stream().boxed()
    }
}

/// A request that may go on to the inner store.
struct Begun {
    under_way: UnderWay,
    answer: AnswerFate,
}

enum AnswerFate {
    Kept,
    Lost,
}

impl Begun {
    /// The answer as the caller gets it. The request is over.
    fn end<T>(self, answer: Result<T>) -> Result<T> {
        self.keep()?;
        answer
    }

    /// Fails if the answer is to be lost; else the request stays under way until what is returned is dropped.
    fn keep(self) -> Result<UnderWay> {
        match self.answer {
            AnswerFate::Kept => Ok(self.under_way),
            AnswerFate::Lost => Err(scripted()),
        }
    }
}

/// Counts a request as under way for as long as it lives.
struct UnderWay {
    stage: Arc<Stage>,
    class: PathClass,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.stage.script().end(self.class);
    }
}

fn scripted() -> Error {
    Error::Generic { store: "scripted bucket", source: "the script says so".into() }
}

/// A scripted fate: whether it was met, and the release of what it holds.
#[derive(Clone, Debug)]
pub struct Cue {
    stage: Arc<Stage>,
    rule: usize,
}

impl Cue {
    /// Whether its request came.
    pub fn was_reached(&self) -> bool {
        self.stage.script().rules[self.rule].reached
    }

    /// Waits until its request came.
    pub async fn reached(&self) {
        self.stage.until(|script| script.rules[self.rule].reached).await;
    }

    /// Lets go a request that is held, now or when it comes.
    pub fn release(&self) {
        self.stage.script().rules[self.rule].released = true;
        self.stage.changed.notify_waiters();
    }
}

impl fmt::Display for ScriptedBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scripted {}", self.inner)
    }
}

// A defaulted method would call others behind the script's back, or get past it when the trait grows.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for ScriptedBucket {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let operation = match &opts.mode {
            PutMode::Create => Operation::Create,
            PutMode::Overwrite => Operation::Overwrite,
            PutMode::Update(_) => Operation::Update,
        };
        let begun = self.begin(operation, location.as_ref()).await?;
        begun.end(self.inner.put_opts(location, payload, opts).await)
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.begin(Operation::UploadStart, location.as_ref()).await?;
        let upload = begun.end(self.inner.put_multipart_opts(location, opts).await)?;
        Ok(Box::new(Upload { bucket: self.clone(), path: location.to_string(), upload }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = if options.head { Operation::Head } else { Operation::Get };
        let begun = self.begin(operation, location.as_ref()).await?;
        begun.end(self.inner.get_opts(location, options).await)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let begun = self.begin(Operation::Get, location.as_ref()).await?;
        begun.end(self.inner.get_ranges(location, ranges).await)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        locations
            .map(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    let begun = this.begin(Operation::Delete, location.as_ref()).await?;
                    begun.end(this.inner.delete(&location).await)?;
                    Ok(location)
                }
            })
            .buffered(DELETES_AT_ONCE)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let whose = prefix.cloned();
        self.begin_list(prefix, move |inner| inner.list(whose.as_ref()))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let (whose, offset) = (prefix.cloned(), offset.clone());
        self.begin_list(prefix, move |inner| inner.list_with_offset(whose.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.map_or("", AsRef::as_ref);
        let begun = self.begin(Operation::List, path).await?;
        begun.end(self.inner.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let begun = self.begin(Operation::Copy, to.as_ref()).await?;
        begun.end(self.inner.copy_opts(from, to, options).await)
    }

    /// Counts as a copy.
    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let begun = self.begin(Operation::Copy, to.as_ref()).await?;
        begun.end(self.inner.rename_opts(from, to, options).await)
    }
}

#[derive(Debug)]
struct Upload {
    bucket: ScriptedBucket,
    path: String,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.upload.put_part(data);
        let (bucket, path) = (self.bucket.clone(), self.path.clone());
        Box::pin(async move {
            let begun = bucket.begin(Operation::UploadPart, &path).await?;
            begun.end(part.await)
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let begun = self.bucket.begin(Operation::UploadComplete, &self.path).await?;
        begun.end(self.upload.complete().await)
    }

    async fn abort(&mut self) -> Result<()> {
        let begun = self.bucket.begin(Operation::UploadAbort, &self.path).await?;
        begun.end(self.upload.abort().await)
    }
}
