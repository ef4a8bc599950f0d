//! The loops of reductions: sums by cascades, other folds, and the statistics that are made of them.

pub(crate) mod buffers;
pub(crate) mod cascade;
pub(crate) mod columns;
pub(crate) mod folds;
pub(crate) mod loops;
pub(crate) mod moments;
pub(crate) mod results;
pub(crate) mod short_rows;
