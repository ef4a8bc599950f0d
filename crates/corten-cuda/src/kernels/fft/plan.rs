//! How a length is divided into passes and stages, and the numbers of a pass.

use super::Along;
use crate::launch::Shape;
use corten_core::{DType, Result, ensure};

/// Stages of a larger prime radix than this cost more than a convolution.
const LARGEST_RADIX: u64 = 128;
/// Bytes of shared memory that a block uses at most for its lines.
const SHARED: u64 = 40_000;
/// `FFT_MOST_LINES` of `fft.cuh`.
const MOST_LINES: u64 = 64;
/// Elements of the lines of a block, where more than one fits.
const ELEMENTS: u64 = 1024;
/// The most passes, as `FftLines` has coordinates.
const MOST_PASSES: usize = 4;

/// The lengths of the passes of a transform, the product of which is its length.
pub(super) struct Digits {
    lengths: Vec<u64>,
}

impl Digits {
    /// The digits of a length; `None` where it has too large a factor.
    pub(super) fn of(length: u64, dtype: DType) -> Option<Self> {
        let (whole, preferred) = if dtype == DType::Float64 { (1024, 256) } else { (2048, 512) };
        let mut factors = prime_factors(length);
        factors.reverse();
        if factors.first().is_some_and(|&largest| largest > LARGEST_RADIX) {
            return None;
        }
        if length <= whole {
            return Some(Self { lengths: vec![length.max(1)] });
        }
        [preferred, whole]
            .into_iter()
            .flat_map(|most| (2..=MOST_PASSES).map(move |count| (most, count)))
            .find_map(|(most, count)| divided(&factors, most, count))
            .map(|lengths| Self { lengths })
    }

    /// The number of passes.
    pub(super) fn count(&self) -> usize {
        self.lengths.len()
    }

    fn before(&self, pass: usize) -> u64 {
        self.lengths[..pass].iter().product()
    }

    fn after(&self, pass: usize) -> u64 {
        self.lengths[pass + 1..].iter().product()
    }
}

/// The factors, the largest first, as `count` products of at most `most`.
fn divided(factors: &[u64], most: u64, count: usize) -> Option<Vec<u64>> {
    let mut products = vec![1; count];
    for factor in factors {
        let smallest = products.iter_mut().min()?;
        *smallest *= factor;
    }
    products.iter().all(|&product| product <= most).then_some(products)
}

/// The prime factors of a number, the smallest first.
fn prime_factors(mut number: u64) -> Vec<u64> {
    let mut factors = Vec::new();
    let mut factor = 2;
    while factor * factor <= number {
        while number.is_multiple_of(factor) {
            factors.push(factor);
            number /= factor;
        }
        factor += 1;
    }
    if number > 1 {
        factors.push(number);
    }
    factors
}

/// The length to which lines are padded for a convolution.
pub(super) fn padded_length(length: u64) -> u64 {
    (2 * length - 1).next_power_of_two()
}

/// `FftTables` of `fft.cuh`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Tables {
    start: [u64; 9],
    step: [u64; 8],
    period: [u64; 8],
    count: u32,
    direction: i32,
}

impl Tables {
    /// The roots of each pass and, with several, those of the whole length as two tables.
    pub(super) fn of(digits: &Digits, direction: i32) -> Self {
        let mut tables = Self { direction, ..Self::default() };
        for &length in &digits.lengths {
            tables.add(length, 1, length);
        }
        if digits.count() > 1 {
            let whole = digits.before(digits.count());
            let low = low_twiddles(whole);
            tables.add(low, 1, whole);
            tables.add(whole.div_ceil(low), low, whole);
        }
        tables
    }

    fn add(&mut self, count: u64, step: u64, period: u64) {
        let own = self.count as usize;
        (self.step[own], self.period[own]) = (step, period);
        self.start[own + 1] = self.start[own] + count;
        self.count += 1;
    }

    /// The numbers of all tables.
    pub(super) fn count(&self) -> u64 {
        self.start[self.count as usize]
    }

    /// Where a table begins.
    pub(super) fn address(&self, first: *mut u8, table: usize, dtype: DType) -> *mut u8 {
        first.wrapping_add(self.start[table] as usize * 2 * dtype.itemsize())
    }
}

/// How many of the twiddles of a whole line are in the first of two tables.
fn low_twiddles(whole: u64) -> u64 {
    whole.isqrt().next_power_of_two()
}

/// `FftLines` of `fft.cuh`.
#[repr(C)]
#[derive(Default)]
pub(super) struct LineBatch {
    sizes: [u64; 5],
    from: [u64; 5],
    to: [u64; 5],
    step_from: u64,
    step_to: u64,
    lines: u64,
    len: u32,
    group: u32,
    lines_first_from: u32,
    lines_first_to: u32,
    stages: u32,
    radix: [u32; 12],
    twiddle_coordinate: u32,
    twiddle_divisor: u64,
    twiddle_step: u64,
    low: u64,
    kept: u64,
    symmetric: u64,
}

impl LineBatch {
    /// The lines of a pass.
    pub(super) fn of_pass(digits: &Digits, pass: usize, along: &Along, dtype: DType) -> Self {
        let mut lines = match pass + 1 == digits.count() {
            true => Self::last(digits, along),
            false => Self::inner(digits, pass, along),
        };
        lines.len = digits.lengths[pass] as u32;
        lines.lines = lines.sizes.iter().product();
        lines.symmetric = along.length;
        lines.set_stages();
        let number = 2 * dtype.itemsize() as u64;
        let most = SHARED / (2 * (u64::from(lines.len) + 1) * number);
        let least = if lines.lines_first_from + lines.lines_first_to > 0 { 8 } else { 1 };
        let wanted = (ELEMENTS / u64::from(lines.len)).max(least);
        lines.group = wanted.min(most).min(MOST_LINES).min(lines.lines).max(1) as u32;
        lines
    }

    /// A pass over one digit, in place.
    fn inner(digits: &Digits, pass: usize, along: &Along) -> Self {
        let (length, inner) = (digits.lengths[pass], along.inner);
        let (before, after) = (digits.before(pass), digits.after(pass));
        let strides = |row: u64| [row * inner, length * after * inner, 0, inner, 1];
        let row = if pass == 0 { along.read } else { along.length };
        Self {
            sizes: [along.outer, before, 1, after, inner],
            from: strides(row),
            to: strides(along.length),
            step_from: after * inner,
            step_to: after * inner,
            lines_first_from: 1,
            lines_first_to: 1,
            twiddle_coordinate: 3,
            twiddle_divisor: 1,
            twiddle_step: before,
            low: low_twiddles(along.length),
            kept: u64::MAX,
            ..Self::default()
        }
    }

    /// The pass over the last digit, which writes the digits in reversed order.
    fn last(digits: &Digits, along: &Along) -> Self {
        let (pass, inner) = (digits.count() - 1, along.inner);
        let row = if pass == 0 { along.read } else { along.length };
        let mut lines = Self {
            sizes: [along.outer, 1, 1, 1, inner],
            from: [row * inner, 0, 0, 0, 1],
            to: [along.kept * inner, 0, 0, 0, 1],
            step_from: inner,
            step_to: digits.before(pass) * inner,
            lines_first_from: u32::from(inner > 1),
            lines_first_to: u32::from(inner > 1 || pass > 0),
            twiddle_coordinate: 5,
            twiddle_divisor: 1,
            low: 1,
            kept: if along.kept == along.length { u64::MAX } else { along.kept },
            ..Self::default()
        };
        for digit in 0..pass {
            let place = 3 - digit;
            lines.sizes[place] = digits.lengths[digit];
            lines.from[place] = digits.after(digit) * inner;
            lines.to[place] = digits.before(digit) * inner;
        }
        lines
    }

    /// The radices of the stages: as many eights as there are, then what is left.
    fn set_stages(&mut self) {
        let mut rest = u64::from(self.len);
        let mut put = |radix: u64| {
            self.radix[self.stages as usize] = radix as u32;
            self.stages += 1;
        };
        for radix in [8, 4, 2] {
            while rest.is_multiple_of(radix) {
                put(radix);
                rest /= radix;
            }
        }
        prime_factors(rest).into_iter().for_each(put);
    }

    /// Blocks for all lines.
    pub(super) fn shape(&self, dtype: DType) -> Result<Shape> {
        let blocks = self.lines.div_ceil(u64::from(self.group));
        ensure!(
            blocks <= i32::MAX as u64,
            Runtime,
            "a Fourier transform of {} lines is too large for one launch",
            self.lines
        );
        let elements = self.group * (self.len + 1);
        let threads = (self.group * self.len / 4).next_multiple_of(32).clamp(32, 256);
        let shared = 2 * elements * 2 * dtype.itemsize() as u32;
        Ok(Shape { grid: [blocks as u32, 1, 1], block: [threads, 1, 1], shared })
    }
}
