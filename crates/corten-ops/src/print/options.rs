//! How tensors are printed.

use std::sync::{Mutex, PoisonError};

/// The print options.
///
/// ```
/// use corten::ops::print::{Options, options, set_options};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let before = options();
/// set_options(Options { precision: 2, ..before });
/// assert_eq!(tensor![1.0, 2.5]?.to_string(), "tensor([1.00, 2.50])");
/// set_options(before);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Digits after the decimal point.
    pub precision: usize,
    /// Tensors with more elements than this are summarised.
    pub threshold: f64,
    /// Elements shown at each end of a summarised dimension.
    pub edgeitems: usize,
    /// Characters per line.
    pub linewidth: usize,
    /// Whether scientific notation is used; `None` decides by the values.
    pub sci_mode: Option<bool>,
}

/// Named sets of options.
///
/// ```
/// use corten::ops::print::{Profile, options};
///
/// assert_eq!(Profile::Short.apply(options()).precision, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// What a program starts with.
    Default,
    /// Fewer digits and elements.
    Short,
    /// Every element.
    Full,
}

impl Profile {
    /// The options of this profile, line width and notation kept from `base`.
    pub fn apply(self, base: Options) -> Options {
        let (precision, threshold, edgeitems) = match self {
            Self::Default => (4, 1000.0, 3),
            Self::Short => (2, 1000.0, 2),
            Self::Full => (4, f64::INFINITY, 3),
        };
        Options { precision, threshold, edgeitems, linewidth: 80, ..base }
    }
}

const DEFAULT: Options =
    Options { precision: 4, threshold: 1000.0, edgeitems: 3, linewidth: 80, sci_mode: None };

static OPTIONS: Mutex<Options> = Mutex::new(DEFAULT);

/// The present options.
pub fn options() -> Options {
    *OPTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the options.
pub fn set_options(options: Options) {
    *OPTIONS.lock().unwrap_or_else(PoisonError::into_inner) = options;
}
