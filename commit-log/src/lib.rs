//! Several processes commit to one SlateDB store.
