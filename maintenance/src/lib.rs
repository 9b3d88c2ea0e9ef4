//! The verbs over a commit log.
