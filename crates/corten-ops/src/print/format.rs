//! One number as text, all numbers of a tensor in one notation and width.

use super::Options;

/// The notation of a tensor's elements and the width that holds all of them.
pub(super) struct Notation {
    kind: NumberStyle,
    pub(super) width: usize,
}

enum NumberStyle {
    /// Text as it is: integers and truth values.
    Plain,
    /// Whole numbers with a trailing point.
    Whole,
    Fixed(usize),
    Scientific(usize),
}

impl Notation {
    /// The notation for elements that are written as they are.
    pub(super) fn verbatim<'a>(elements: impl Iterator<Item = &'a String>) -> Self {
        Self {
            kind: NumberStyle::Plain,
            width: elements.map(String::len).max().unwrap_or(1).max(1),
        }
    }

    /// The notation that suits floating-point values; zeros and non-finite ones do not count.
    pub(super) fn of(values: &[f64], options: &Options) -> Self {
        let counted = || values.iter().copied().filter(|v| v.is_finite() && *v != 0.0);
        let magnitudes = || counted().map(f64::abs);
        let max = magnitudes().fold(0.0, f64::max);
        let min = magnitudes().fold(f64::INFINITY, f64::min);
        let none = max == 0.0;
        let whole = counted().all(|value| value == value.ceil());
        let wide = !none && (max / min > 1000.0 || max > 1e8 || (!whole && min < 1e-4));
        // More digits than the standard library pads to are zeros in any case.
        let precision = options.precision.min(1 << 15);
        let kind = match (!none && options.sci_mode.unwrap_or(wide), whole) {
            (true, _) => NumberStyle::Scientific(precision),
            (false, true) => NumberStyle::Whole,
            (false, false) => NumberStyle::Fixed(precision),
        };
        let width = counted().map(|v| kind.write(v).len()).max().unwrap_or(1).max(1);
        Self { kind, width }
    }

    /// A floating-point value, padded on the left.
    pub(super) fn float(&self, value: f64) -> String {
        self.pad(&self.kind.write(value))
    }

    /// A text, padded on the left.
    pub(super) fn pad(&self, text: &str) -> String {
        format!("{text:>width$}", width = self.width)
    }

    /// A complex value: this notation for the real part, another for the imaginary one.
    pub(super) fn complex(&self, imaginary: &Self, re: f64, im: f64) -> String {
        let im = format!("{}j", imaginary.float(im));
        let im = im.trim_start();
        let sign = if im.starts_with(['+', '-']) { "" } else { "+" };
        format!("{}{sign}{im}", self.float(re))
    }
}

impl NumberStyle {
    fn write(&self, value: f64) -> String {
        match self {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value.is_infinite() => (if value > 0.0 { "inf" } else { "-inf" }).to_owned(),
            Self::Plain | Self::Whole => format!("{value:.0}."),
            Self::Fixed(precision) => format!("{value:.precision$}"),
            Self::Scientific(precision) => scientific(value, *precision),
        }
    }
}

/// C's `%e`: at least two digits of exponent.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// A number as Python writes it: as many digits as tell it from others.
pub(super) fn python_float(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, power)) => {
            let (sign, power) = match power.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', power),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text.replace("NaN", "nan"),
    }
}
