//! The atomics of the modules that are model-checked. The loom tests compile those modules with
//! loom's types in place of these.

pub(crate) use std::sync::atomic;
