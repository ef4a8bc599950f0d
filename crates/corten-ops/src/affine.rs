//! The scale and the zero point of affine quantisation.

use corten_core::{Result, ensure};

/// Scales below are cut off: their steps would be lost in single precision.
const LEAST_SCALE: f32 = 6.1e-5;

/// The scale and the zero point by which numbers in a range become integers.
///
/// ```
/// use corten::ops::affine::AffineParams;
///
/// # fn main() -> corten::Result<()> {
/// let params = AffineParams::of_range(-1.0, 1.55, 0, 255, false)?;
/// assert_eq!(params.zero_point, 100);
/// assert!((params.scale - 0.01).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AffineParams {
    /// What one step of the integers stands for.
    pub scale: f64,
    /// The integer that stands for zero.
    pub zero_point: i64,
}

impl AffineParams {
    /// The numbers that map a range, extended to zero, to `qmin..=qmax`, as FBGEMM chooses them; with
    /// `symmetric` zero lies in the middle where the range has both signs.
    ///
    /// # Errors
    /// `Runtime` for ranges in disorder.
    pub fn of_range(
        least: f32,
        greatest: f32,
        qmin: i64,
        qmax: i64,
        symmetric: bool,
    ) -> Result<Self> {
        ensure!(
            least <= greatest,
            Runtime,
            "In ChooseQuantizationParams, min should be less than or equal to max"
        );
        ensure!(
            qmin < qmax,
            Runtime,
            "quant_min must be less than quant_max, got {qmin} and {qmax}"
        );
        let (mut least, mut greatest) = (least, greatest);
        let symmetric = symmetric && least < 0.0 && greatest > 0.0;
        let steps = qmax - qmin;
        if symmetric {
            let ends = [-(steps / 2 + 1) as f64, (steps / 2) as f64];
            let scale =
                (f64::from(least) / ends[0]).abs().max((f64::from(greatest) / ends[1]).abs());
            (least, greatest) = ((scale * ends[0]) as f32, (scale * ends[1]) as f32);
        }
        (least, greatest) = (least.min(0.0), greatest.max(0.0));
        let mut scale = (f64::from(greatest) - f64::from(least)) / steps as f64;
        if scale as f32 == 0.0 || (1.0 / scale as f32).is_infinite() {
            scale = 0.1;
        }
        if scale < f64::from(LEAST_SCALE) {
            let factor = LEAST_SCALE / scale as f32;
            scale = f64::from(LEAST_SCALE);
            let width = LEAST_SCALE * steps as f32;
            (least, greatest) = match (least == 0.0, greatest == 0.0) {
                (true, _) => (least, width),
                (_, true) => (-width, greatest),
                _ => (least * factor, greatest * factor),
            };
        }
        let zero_point = match symmetric {
            true => nudged((qmin + qmax) as f64 / 2.0, qmin, qmax),
            false => zero_point(scale, [least, greatest].map(f64::from), qmin, qmax),
        };
        Ok(Self { scale, zero_point })
    }
}

/// The zero point from the end of the range whose error is smaller.
fn zero_point(scale: f64, range: [f64; 2], qmin: i64, qmax: i64) -> i64 {
    let error = |q: i64, end: f64| (q as f64).abs() - (end / scale).abs();
    let first = match error(qmin, range[0]) < error(qmax, range[1]) {
        true => qmin as f64 - range[0] / scale,
        false => qmax as f64 - range[1] / scale,
    };
    nudged(first, qmin, qmax)
}

fn nudged(first: f64, qmin: i64, qmax: i64) -> i64 {
    if first < qmin as f64 {
        qmin
    } else if first > qmax as f64 {
        qmax
    } else {
        first.round_ties_even() as i64
    }
}
