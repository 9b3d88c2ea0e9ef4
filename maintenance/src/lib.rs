//! The verbs over a commit log.

pub mod arguments;
pub mod location;
pub mod rows;
