//! The frame around everything the log writes: what kind of object it is, its format, its length and a checksum over all.
//! Pure: bytes in, bytes out.
//!
//! ```text
//! 0        4      5        6       7        8           12         16          20
//! | "SLOG" | kind | format | codec | zero   | body size | plain size | checksum | body …
//! ```
//!
//! The checksum (CRC-32C) covers everything but itself. Numbers are little-endian.

use bytes::{BufMut, Bytes, BytesMut};

const MAGIC: [u8; 4] = *b"SLOG";
const HEADER: usize = 20;
const CHECKSUM_AT: usize = 16;

/// The newest format this build writes and reads.
pub const FORMAT: u8 = 1;

/// The largest body that is ever decompressed, whatever the header says: above every bound on what is written.
pub const MAX_PLAIN_BYTES: usize = 32 << 20;

/// Bodies of at least this many bytes are compressed. Below it the gain is smaller than one network packet.
const COMPRESS_FROM: usize = 4096;

/// What an object is. The number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A slot's envelope.
    Slot,
    /// A retired page's ledger.
    Ledger,
    /// An adoption record.
    Adoption,
    /// A leaving record.
    Leaving,
    /// A take record.
    Take,
}

impl FrameKind {
    fn number(self) -> u8 {
        match self {
            FrameKind::Slot => 1,
            FrameKind::Ledger => 2,
            FrameKind::Adoption => 3,
            FrameKind::Leaving => 4,
            FrameKind::Take => 5,
        }
    }
}

/// Why bytes from the bucket are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Too short to hold a frame, or shorter or longer than the frame says.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// What the frame says, or the size of its header.
        expected: usize,
        /// What there is.
        found: usize,
    },
    /// Not written by this library.
    #[error("not an object of a commit log")]
    Magic,
    /// The checksum does not fit.
    #[error("checksum mismatch")]
    Checksum,
    /// Another kind of object than its name says.
    #[error("expected an object of kind {expected}, found {found}")]
    Kind {
        /// The kind that the name stands for.
        expected: u8,
        /// The kind that was found.
        found: u8,
    },
    /// A later build wrote it.
    #[error("format {found} is newer than {FORMAT}, the newest that this build reads: upgrade it")]
    NewerFormat {
        /// The format that was found.
        found: u8,
    },
    /// A codec that this build does not know, or a body that does not decompress.
    #[error("the body does not decompress")]
    Compression,
    /// The body is no message of its kind, or a field of it is out of bounds.
    #[error("{0}")]
    Field(&'static str),
}

#[derive(Clone, Copy)]
enum Codec {
    Plain,
    Lz4,
}

/// Wraps `body` in a frame.
pub fn frame(kind: FrameKind, body: &Bytes) -> Bytes {
    let compressed = (body.len() >= COMPRESS_FROM)
        .then(|| lz4_flex::block::compress(body))
        .filter(|compressed| compressed.len() < body.len());
    let (codec, stored) = match &compressed {
        Some(compressed) => (Codec::Lz4, compressed.as_slice()),
        None => (Codec::Plain, body.as_ref()),
    };
    let mut bytes = BytesMut::with_capacity(HEADER + stored.len());
    bytes.put_slice(&MAGIC);
    bytes.put_slice(&[kind.number(), FORMAT, codec as u8, 0]);
    // Sizes are bounded far below 4 GiB by every caller's own limit.
    bytes.put_u32_le(u32::try_from(stored.len()).unwrap_or(u32::MAX));
    bytes.put_u32_le(u32::try_from(body.len()).unwrap_or(u32::MAX));
    bytes.put_u32_le(0);
    bytes.put_slice(stored);
    let checksum = checksum(&bytes).to_le_bytes();
    bytes[CHECKSUM_AT..HEADER].copy_from_slice(&checksum);
    bytes.freeze()
}

/// Takes the body out of a frame.
///
/// # Errors
///
/// Any cut, any flipped bit, another kind, a newer format. Never panics and never allocates more than
/// [`MAX_PLAIN_BYTES`].
pub fn unframe(kind: FrameKind, bytes: &Bytes) -> Result<Bytes, Damage> {
    let Some((header, stored)) = bytes.split_at_checked(HEADER) else {
        return Err(Damage::Length { expected: HEADER, found: bytes.len() });
    };
    if header[..4] != MAGIC {
        return Err(Damage::Magic);
    }
    let stored_size = number_at(header, 8);
    if stored.len() != stored_size {
        return Err(Damage::Length { expected: HEADER + stored_size, found: bytes.len() });
    }
    if number_at(header, CHECKSUM_AT) != checksum(bytes) as usize {
        return Err(Damage::Checksum);
    }
    // Kind and format are looked at after the checksum: before it they may be damage.
    if header[5] > FORMAT {
        return Err(Damage::NewerFormat { found: header[5] });
    }
    if header[4] != kind.number() {
        return Err(Damage::Kind { expected: kind.number(), found: header[4] });
    }
    let plain_size = number_at(header, 12);
    match header[6] {
        codec if codec == Codec::Plain as u8 && plain_size == stored_size => Ok(bytes.slice(HEADER..)),
        codec if codec == Codec::Lz4 as u8 && plain_size <= MAX_PLAIN_BYTES => decompress(stored, plain_size),
        _ => Err(Damage::Compression),
    }
}

fn decompress(stored: &[u8], plain_size: usize) -> Result<Bytes, Damage> {
    let plain = lz4_flex::block::decompress(stored, plain_size).map_err(|_| Damage::Compression)?;
    if plain.len() == plain_size { Ok(Bytes::from(plain)) } else { Err(Damage::Compression) }
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[HEADER..])
}

fn number_at(header: &[u8], at: usize) -> usize {
    let mut number = [0; 4];
    number.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(number) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Bytes {
        Bytes::from_static(b"a small body")
    }

    fn large() -> Bytes {
        Bytes::from(vec![7; 3 * COMPRESS_FROM])
    }

    #[test]
    fn a_body_comes_back_whole_and_a_large_one_is_stored_smaller() {
        for body in [Bytes::new(), small(), large()] {
            assert_eq!(unframe(FrameKind::Slot, &frame(FrameKind::Slot, &body)), Ok(body));
        }
        assert!(frame(FrameKind::Slot, &large()).len() < large().len() / 10);
    }

    #[test]
    fn every_cut_is_refused() {
        for body in [small(), large()] {
            let whole = frame(FrameKind::Slot, &body);
            for length in 0..whole.len() {
                assert!(unframe(FrameKind::Slot, &whole.slice(..length)).is_err(), "cut at {length}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        for body in [small(), large()] {
            let whole = frame(FrameKind::Slot, &body);
            for bit in 0..whole.len() * 8 {
                let mut flipped = whole.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(unframe(FrameKind::Slot, &Bytes::from(flipped)).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut longer = frame(FrameKind::Slot, &small()).to_vec();
        longer.push(0);
        assert!(matches!(unframe(FrameKind::Slot, &Bytes::from(longer)), Err(Damage::Length { .. })));
    }

    #[test]
    fn another_kind_and_a_newer_format_say_so() {
        let ledger = frame(FrameKind::Ledger, &small());
        assert_eq!(unframe(FrameKind::Slot, &ledger), Err(Damage::Kind { expected: 1, found: 2 }));
        let mut newer = frame(FrameKind::Slot, &small()).to_vec();
        newer[5] = FORMAT + 1;
        let checksum = checksum(&newer).to_le_bytes();
        newer[CHECKSUM_AT..HEADER].copy_from_slice(&checksum);
        assert_eq!(unframe(FrameKind::Slot, &Bytes::from(newer)), Err(Damage::NewerFormat { found: FORMAT + 1 }));
    }
}
