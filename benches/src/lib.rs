//! Benches live in `benches/`; this crate is otherwise empty.
