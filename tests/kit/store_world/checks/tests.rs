//! Bad worlds go red.
