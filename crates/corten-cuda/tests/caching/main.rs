//! The caching allocators: rules and wording one by one, and random programs against a model.

mod config;
mod device;
mod host;
mod model;
mod rules;
