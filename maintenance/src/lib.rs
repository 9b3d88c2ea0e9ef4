//! The verbs over a commit log.

pub mod arguments;
pub mod command;
pub mod connect;
pub mod demo;
pub mod failure;
pub mod location;
pub mod pages;
pub mod resolve;
pub mod rows;
pub mod verbs;
