//! Programs run by plans, beside the same calls at once.

mod chains;
mod random;
mod sketch;
