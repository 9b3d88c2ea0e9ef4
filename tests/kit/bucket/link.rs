//! One process's view of the bucket: object_store's trait over requests to the server.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::pending;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::Shared;
use super::objects::past;
use super::request::{Ask, Body, Depth, Page, PageAsk, Process, Read, Reply, transient};
use super::server::Gate;
use crate::fingerprint::Hash128;

/// How many deletes of one stream are under way at once, as object_store's own default has it.
const DELETES_AT_ONCE: usize = 10;

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pub(crate) process: Process,
    pub(crate) link: usize,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated bucket of process {}", self.process.0)
    }
}

impl Link {
    /// Sends a request at the first poll and waits for its answer. Dropping the wait withdraws nothing.
    async fn ask(&self, path: &str, ask: Ask) -> Result<Reply> {
        let Some(answer) = self.shared.submit(self.link, path, ask) else {
            return pending().await;
        };
        match answer.await {
            Ok(answer) if self.shared.gate(self.link) != Gate::Killed => answer,
            Ok(_) | Err(_) => pending().await,
        }
    }

    async fn page(&self, prefix: &str, ask: PageAsk) -> Result<Page> {
        match self.ask(prefix, Ask::Page(ask)).await? {
            Reply::Page(page) => Ok(page),
            Reply::Put(_) | Reply::Read(_) | Reply::Upload(_) | Reply::Done => {
                unreachable!("asked for a page")
            }
        }
    }

    async fn put(&self, path: &str, ask: Ask) -> Result<PutResult> {
        match self.ask(path, ask).await? {
            Reply::Put(result) => Ok(result),
            Reply::Page(_) | Reply::Read(_) | Reply::Upload(_) | Reply::Done => {
                unreachable!("asked for a put")
            }
        }
    }

    async fn done(&self, path: &str, ask: Ask) -> Result<()> {
        self.ask(path, ask).await.map(|_| ())
    }

    /// The walk of a list: page by page, each read at its own instant, ended by the first error.
    fn walk(&self, prefix: Option<&Path>, from: Option<String>) -> BoxStream<'static, Result<ObjectMeta>> {
        let link = self.clone();
        let prefix = prefix.map_or_else(String::new, ToString::to_string);
        let start = PageAsk { depth: Depth::Whole, from, first_seen: None };
        stream::try_unfold(Some(start), move |at| {
            let (link, prefix) = (link.clone(), prefix.clone());
            async move {
                let Some(ask) = at else {
                    return Ok::<_, Error>(None);
                };
                let mut page = link.page(&prefix, ask).await?;
                let objects = std::mem::take(&mut page.objects);
                Ok(Some((stream::iter(objects).map(Ok), next(page, Depth::Whole))))
            }
        })
        .try_flatten()
        .boxed()
    }
}

fn next(page: Page, depth: Depth) -> Option<PageAsk> {
    Some(PageAsk { depth, from: Some(page.next?), first_seen: Some(page.first_seen) })
}

#[async_trait]
impl ObjectStore for Link {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let payload = Bytes::from(payload);
        let ask = Ask::Put { mode: opts.mode, content: Hash128::of(&payload), payload, attributes: opts.attributes };
        self.put(location.as_ref(), ask).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let attributes = opts.attributes;
        match self.ask(location.as_ref(), Ask::UploadStart { attributes }).await? {
            Reply::Upload(upload) => Ok(Box::new(Upload { link: self.clone(), path: location.to_string(), upload, parts: 0 })),
            Reply::Put(_) | Reply::Page(_) | Reply::Read(_) | Reply::Done => {
                unreachable!("asked for an upload")
            }
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.ask(location.as_ref(), Ask::Get(Box::new(options))).await? {
            Reply::Read(read) => Ok(get_result(*read)),
            Reply::Put(_) | Reply::Page(_) | Reply::Upload(_) | Reply::Done => {
                unreachable!("asked for a read")
            }
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let link = self.clone();
        locations
            .map(move |location| {
                let link = link.clone();
                async move {
                    let location = location?;
                    link.done(location.as_ref(), Ask::Delete).await?;
                    Ok(location)
                }
            })
            .buffered(DELETES_AT_ONCE)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.walk(prefix, None)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.walk(prefix, Some(past(offset.as_ref())))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.map_or_else(String::new, ToString::to_string);
        let mut whole = ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() };
        let mut at = Some(PageAsk { depth: Depth::OneLevel, from: None, first_seen: None });
        while let Some(ask) = at {
            let mut page = self.page(&prefix, ask).await?;
            whole.objects.append(&mut page.objects);
            whole.common_prefixes.append(&mut page.folders);
            at = next(page, Depth::OneLevel);
        }
        Ok(whole)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let ask = Ask::Copy { to: to.clone(), mode: options.mode };
        self.done(from.as_ref(), ask).await
    }
}

fn get_result(read: Read) -> GetResult {
    let Read { meta, attributes, range, bytes, body } = read;
    let chunks: Vec<Result<Bytes>> = match body {
        Body::Whole => vec![Ok(bytes)],
        Body::BreaksHalfway => vec![Ok(bytes.slice(..bytes.len() / 2)), Err(transient("the body broke off"))],
    };
    GetResult {
        payload: GetResultPayload::Stream(stream::iter(chunks).boxed()),
        meta,
        range,
        attributes,
        extensions: Default::default(),
    }
}

#[derive(Debug)]
struct Upload {
    link: Link,
    path: String,
    upload: u64,
    parts: usize,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let ask = Ask::UploadPart { upload: self.upload, index: self.parts, payload: data.into() };
        self.parts += 1;
        let (link, path) = (self.link.clone(), self.path.clone());
        Box::pin(async move { link.done(&path, ask).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let upload = self.upload;
        self.link.put(&self.path, Ask::UploadComplete { upload }).await
    }

    async fn abort(&mut self) -> Result<()> {
        let upload = self.upload;
        self.link.done(&self.path, Ask::UploadAbort { upload }).await
    }
}
