//! Multipart uploads: parts kept apart from the objects until the upload is completed.

use std::collections::BTreeMap;

use bytes::Bytes;
use object_store::{Attributes, Error};

use super::request::transient;

#[derive(Debug)]
enum Upload {
    Open { attributes: Attributes, parts: BTreeMap<usize, Bytes> },
    Completed { generation: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct Uploads {
    map: BTreeMap<u64, Upload>,
    started: u64,
}

impl Uploads {
    pub(crate) fn start(&mut self, attributes: Attributes) -> u64 {
        self.started += 1;
        let parts = BTreeMap::new();
        self.map.insert(self.started, Upload::Open { attributes, parts });
        self.started
    }

    /// Keeps a part; the same part again replaces it.
    pub(crate) fn part(&mut self, upload: u64, index: usize, payload: Bytes) -> Result<(), Error> {
        match self.map.get_mut(&upload) {
            Some(Upload::Open { parts, .. }) => {
                parts.insert(index, payload);
                Ok(())
            }
            Some(Upload::Completed { .. }) | None => Err(transient("no such upload")),
        }
    }

    pub(crate) fn abort(&mut self, upload: u64) {
        if let Some(Upload::Open { .. }) = self.map.get(&upload) {
            self.map.remove(&upload);
        }
    }

    /// The generation that a completed upload made.
    pub(crate) fn completed(&self, upload: u64) -> Option<u64> {
        match self.map.get(&upload)? {
            Upload::Completed { generation } => Some(*generation),
            Upload::Open { .. } => None,
        }
    }

    /// The parts in order, as one content. A missing part is refused, as the real stores refuse it.
    pub(crate) fn assemble(&self, upload: u64) -> Result<(Bytes, Attributes), Error> {
        let Some(Upload::Open { attributes, parts }) = self.map.get(&upload) else {
            return Err(transient("no such upload"));
        };
        if !parts.keys().copied().eq(0..parts.len()) {
            return Err(transient("a part of the upload is missing"));
        }
        let mut whole = Vec::with_capacity(parts.values().map(Bytes::len).sum());
        for part in parts.values() {
            whole.extend_from_slice(part);
        }
        Ok((whole.into(), attributes.clone()))
    }

    pub(crate) fn finish(&mut self, upload: u64, generation: u64) {
        self.map.insert(upload, Upload::Completed { generation });
    }
}
