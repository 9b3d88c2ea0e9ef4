//! The probe: whether a store can be trusted with put-if-absent, asked at every open that may write.

use bytes::Bytes;
use futures::future::join_all;
use object_store::Error;

use super::{Bucket, Deadline, ObjectName, Put};
use crate::error::Unavailable;

/// How many puts race for one name. A second put in a row does not catch a store that looks and then writes without a lock.
const RACERS: usize = 8;

/// How many names are raced for. A store without a lock lets two racers win about two races in three.
const RACES: usize = 4;

/// How often one race is held again while its answers prove nothing.
const HELD_AGAIN: usize = 4;

/// Why a store is not trusted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Distrusted {
    /// Several puts of one name were told that they created it.
    #[error("{winners} of {RACERS} racing puts were told that they created one object: the store does not keep put-if-absent")]
    SeveralWinners {
        /// How many.
        winners: usize,
    },
    /// What is stored is not what the winner put.
    #[error("the object does not hold what the put that created it said: the store does not keep put-if-absent")]
    OtherBytes,
    /// No put was told that it created a name that was free.
    #[error("no put of a free name was told that it created the object")]
    NoWinner,
    /// Reading a free name is forbidden.
    #[error("reading a name that is free is forbidden instead of not found: allow reading objects and listing the bucket")]
    AbsenceForbidden,
}

/// A probe that found a store wanting, or could not be made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProbeFailed {
    /// The store cannot be trusted.
    #[error(transparent)]
    Distrusted(#[from] Distrusted),
    /// The store did not answer, or said no.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Bucket {
    /// Races puts of one name, several times, and wants one winner with its bytes each time. The names are deleted at once.
    ///
    /// # Errors
    ///
    /// A store that breaks put-if-absent, or one that does not answer.
    pub async fn probe_put_if_absent(&self, deadline: &Deadline) -> Result<(), ProbeFailed> {
        join_all([(); RACES].map(|()| self.race(deadline))).await.into_iter().collect()
    }

    /// Reads a name that nobody ever wrote, and wants to be told so. A store that answers "forbidden" instead would turn every
    /// ledger read into doubt.
    ///
    /// # Errors
    ///
    /// A store that does not say "not found": distrusted when it says "forbidden".
    pub async fn probe_absence(&self, deadline: &Deadline) -> Result<(), ProbeFailed> {
        let name = ObjectName::Probe(self.environment().randomness.number());
        match self.read(name, deadline).await {
            Ok(_) => Ok(()),
            Err(Unavailable { source: Some(source), .. }) if matches!(*source, Error::PermissionDenied { .. }) => {
                Err(Distrusted::AbsenceForbidden.into())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// One race, held again under another name while its answers prove nothing.
    async fn race(&self, deadline: &Deadline) -> Result<(), ProbeFailed> {
        let mut inconclusive = None;
        for _ in 0..HELD_AGAIN {
            let name = ObjectName::Probe(self.environment().randomness.number());
            let ended = self.race_for(name, deadline).await;
            // The name is rubbish whatever came out; a delete that fails leaves sixteen bytes behind.
            let _ = deadline.bound(self.delete(name)).await;
            match ended? {
                Race::OneWinner => return Ok(()),
                Race::Inconclusive(doubt) => inconclusive = doubt,
            }
            if deadline.has_passed() {
                break;
            }
        }
        Err(inconclusive.map_or(ProbeFailed::Distrusted(Distrusted::NoWinner), ProbeFailed::Unavailable))
    }

    async fn race_for(&self, name: ObjectName, deadline: &Deadline) -> Result<Race, ProbeFailed> {
        let bodies: Vec<Bytes> = (0..RACERS).map(|_| Bytes::copy_from_slice(&self.environment().randomness.bytes())).collect();
        let puts = join_all(bodies.iter().map(|body| self.create_by(name, body.clone(), deadline))).await;
        let mut winners = Vec::new();
        let mut doubt = None;
        for (put, body) in puts.into_iter().zip(&bodies) {
            match put {
                Put::Created => winners.push(body),
                Put::Exists => {}
                Put::Doubtful(failure) if failure.may_pass() => doubt = Some(failure),
                Put::Doubtful(failure) => return Err(failure.into()),
            }
        }
        let [winner] = winners[..] else {
            // The winner's answer may have been lost, or its put sent twice by the client underneath.
            return if winners.is_empty() { Ok(Race::Inconclusive(doubt)) } else { Err(several(winners.len())) };
        };
        let stored = self.read(name, deadline).await?;
        if stored.as_ref() == Some(winner) { Ok(Race::OneWinner) } else { Err(Distrusted::OtherBytes.into()) }
    }
}

/// How a race ended that did not end badly.
enum Race {
    /// One put was told that it created the object, and its bytes are there.
    OneWinner,
    /// Nobody was told so.
    Inconclusive(Option<Unavailable>),
}

fn several(winners: usize) -> ProbeFailed {
    Distrusted::SeveralWinners { winners }.into()
}
