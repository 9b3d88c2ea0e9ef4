//! What an effect or an answer proves: the counters, and the planned damage to a good answer.

use super::{Gate, Pending, Server};
use crate::bucket::faults::Fault;
use crate::bucket::plan::{Ending, Lateness, Mangling, Pace, Plan, is_read, shuffle};
use crate::bucket::request::{Answer, Ask, Body, Operation, Reply};

impl Server {
    /// Counts what an effect proves. `changed` is the mark in the history before it, if it changed anything.
    pub(super) fn count_effect(&mut self, request: &Pending, copy: usize, result: &Answer, changed: Option<u64>) {
        let Pending { address, plan, .. } = request;
        if copy > 0 {
            self.counters.count(Fault::Resent);
        }
        let met_own = address.operation == Operation::Create && request.landed > 0 && result.is_err();
        if met_own {
            self.counters.count(Fault::MetOwnObject);
        }
        if changed.is_some() {
            if plan.late == Lateness::Late {
                self.counters.count(Fault::LateLanding);
                if address.operation == Operation::Create && self.objects.history.was_deleted(&address.path) {
                    self.counters.count(Fault::LateLandingOnDeletedName);
                }
            }
            if self.links[request.link].gate == Gate::Killed {
                self.counters.count(Fault::LandedAfterKill);
            }
        }
        if let Some(first_seen) = first_seen(&request.ask) {
            let since = self.objects.history.since(usize::try_from(first_seen).expect("fits"));
            if since.iter().any(|effect| effect.path.starts_with(&*address.path)) {
                self.counters.count(Fault::ListMovedBetweenPages);
            }
        }
    }

    /// Damages a good answer as planned.
    pub(super) fn mangle(&mut self, mut result: Answer, request: &Pending) -> Answer {
        let Plan { mangling, chooser, .. } = request.plan;
        let fault = match (&mut result, mangling) {
            (Ok(Reply::Page(page)), Mangling::ShufflePage) if page.objects.len() > 1 => {
                shuffle(page, chooser);
                Fault::ShuffledPage
            }
            (Ok(Reply::Read(read)), Mangling::BreakBody) => {
                read.body = Body::BreaksHalfway;
                Fault::BrokenBody
            }
            (Ok(Reply::Read(read)), Mangling::TruncateBody) if !read.bytes.is_empty() => {
                read.bytes.truncate(at(chooser, read.bytes.len()));
                Fault::TruncatedBody
            }
            (Ok(Reply::Read(read)), Mangling::FlipByte) if !read.bytes.is_empty() => {
                let mut bytes = read.bytes.to_vec();
                bytes[at(chooser, read.bytes.len())] ^= 1 << (chooser >> 61);
                read.bytes = bytes.into();
                Fault::FlippedByte
            }
            (Ok(_) | Err(_), _) => return result,
        };
        self.counters.count(fault);
        result
    }

    pub(super) fn count_answer(&mut self, request: &Pending) {
        let Pending { address, plan, .. } = request;
        if plan.pace == Pace::Slow && plan.ending == Ending::Answered {
            self.counters.count(Fault::SlowAnswer);
        }
        if plan.ending == Ending::Answered {
            return;
        }
        if is_read(address.operation) {
            self.counters.count(Fault::ReadError);
            if first_seen(&request.ask).is_some() {
                self.counters.count(Fault::ListBrokeMidway);
            }
        }
        let Some(fault) = plan.fault else { return };
        let lost = matches!(fault, Fault::AnswerLost | Fault::AnswerLostHanging);
        if !lost || request.landed > 0 {
            self.counters.count(fault);
        }
        if lost && request.landed > 0 && address.operation == Operation::Delete {
            self.counters.count(Fault::DeleteDoneAnsweredFailed);
        }
    }
}

/// A number below `length` that `chooser` decides.
fn at(chooser: u64, length: usize) -> usize {
    usize::try_from(chooser % length as u64).expect("below a usize")
}

/// What a page of a list other than the first says of the walk's beginning.
fn first_seen(ask: &Ask) -> Option<u64> {
    match ask {
        Ask::Page(page) => page.first_seen,
        Ask::Put { .. } | Ask::Get(_) | Ask::Delete | Ask::Copy { .. } => None,
        Ask::UploadStart { .. } | Ask::UploadPart { .. } => None,
        Ask::UploadComplete { .. } | Ask::UploadAbort { .. } => None,
    }
}
