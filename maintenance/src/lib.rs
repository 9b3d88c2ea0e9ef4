//! The verbs over a commit log.

pub mod arguments;
pub mod command;
pub mod demo;
pub mod location;
pub mod rows;
