//! Stores that do not do what they say, over an honest one.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a store does that it should not.
pub(crate) enum Lie {
    /// Takes a put-if-absent for a plain put.
    IgnoresCreate,
    /// Looks whether a name is free, lets others run, and then writes.
    LooksThenPuts,
    /// Sends each put twice, as a client does whose first answer was lost, and gives the second answer.
    Resends,
    /// Says of so many puts of a slot that the name is taken, and stores nothing.
    SaysExists(AtomicU64),
    /// The same of puts in the folder of that name.
    SaysExistsOf(&'static str, AtomicU64),
    /// Says "forbidden" of a name that is absent.
    ForbidsAbsence,
    /// Leaves names out of its listings.
    Misses(Box<dyn Fn(&str) -> bool + Send + Sync>),
    /// Breaks so many listings off after the first name.
    BreaksOff(AtomicU64),
    /// Says "forbidden" to every read of a slot, while it is set.
    ForbidsSlots(AtomicBool),
    /// No lie: keeps the bodies of all puts of slots.
    Keeps(Mutex<Vec<Bytes>>),
}

/// A store with a lie.
pub(crate) struct Liar {
    inner: Arc<dyn ObjectStore>,
    pub(crate) lie: Lie,
}

impl Liar {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, lie: Lie) -> Arc<Liar> {
        Arc::new(Liar { inner, lie })
    }
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liar")
    }
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("liar")
    }
}

/// Takes one from a count, if there is one left.
fn one_of(count: &AtomicU64) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let creates = matches!(opts.mode, PutMode::Create);
        let overwrite = PutOptions { mode: PutMode::Overwrite, ..opts.clone() };
        match &self.lie {
            Lie::IgnoresCreate => self.inner.put_opts(location, payload, overwrite).await,
            Lie::LooksThenPuts if creates => {
                if self.inner.head(location).await.is_ok() {
                    return Err(Error::AlreadyExists { path: location.to_string(), source: "it is there".into() });
                }
                tokio::task::yield_now().await;
                self.inner.put_opts(location, payload, overwrite).await
            }
            Lie::Resends => {
                let _ = self.inner.put_opts(location, payload.clone(), opts.clone()).await;
                self.inner.put_opts(location, payload, opts).await
            }
            Lie::SaysExists(times) if location.as_ref().contains("commits") && one_of(times) => {
                Err(Error::AlreadyExists { path: location.to_string(), source: "another request is under way".into() })
            }
            Lie::SaysExistsOf(folder, times) if location.as_ref().contains(folder) && one_of(times) => {
                Err(Error::AlreadyExists { path: location.to_string(), source: "another request is under way".into() })
            }
            Lie::Keeps(bodies) => {
                if location.as_ref().contains("commits") {
                    bodies.lock().unwrap().push(payload.iter().flatten().copied().collect());
                }
                self.inner.put_opts(location, payload, opts).await
            }
            Lie::LooksThenPuts
            | Lie::SaysExists(_)
            | Lie::SaysExistsOf(..)
            | Lie::ForbidsAbsence
            | Lie::ForbidsSlots(_)
            | Lie::Misses(_)
            | Lie::BreaksOff(_) => self.inner.put_opts(location, payload, opts).await,
        }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Lie::ForbidsSlots(forbids) = &self.lie
            && forbids.load(Ordering::Relaxed)
            && location.as_ref().contains("commits")
        {
            return Err(Error::PermissionDenied { path: location.to_string(), source: "not today".into() });
        }
        match (self.inner.get_opts(location, options).await, &self.lie) {
            (Err(Error::NotFound { path, source }), Lie::ForbidsAbsence) => Err(Error::PermissionDenied { path, source }),
            (answer, _) => answer,
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        if let Lie::BreaksOff(times) = &self.lie
            && one_of(times)
        {
            let broken = Error::Generic { store: "liar", source: "the listing broke off".into() };
            return listed.take(1).chain(stream::iter([Err(broken)])).boxed();
        }
        listed
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let offset = offset.clone();
        let listed = self.list(prefix).try_filter(move |object| {
            let after = object.location > offset;
            async move { after }
        });
        let Lie::Misses(missed) = &self.lie else { return listed.boxed() };
        // A listing of a test is short, and the stream may not borrow from the store.
        let names = futures::executor::block_on(listed.collect::<Vec<_>>());
        let shown = names.into_iter().filter(|name| !name.as_ref().is_ok_and(|name| missed(name.location.as_ref())));
        stream::iter(shown.collect::<Vec<_>>()).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
