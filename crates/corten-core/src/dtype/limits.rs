//! What `finfo` says of a dtype.

use super::DType;

/// The limits of a floating-point dtype; of a complex one, of its parts.
///
/// ```
/// use corten_core::DType;
///
/// assert_eq!(DType::Float16.float_limits().max, 65504.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatLimits {
    /// The distance from 1 to the next number.
    pub eps: f64,
    /// The least number.
    pub min: f64,
    /// The largest number.
    pub max: f64,
    /// The least positive normal number.
    pub tiny: f64,
    /// Decimal digits that survive a round trip.
    pub digits: i32,
}

impl DType {
    /// The limits of the dtype; for dtypes that are not of floating point those of float32.
    pub const fn float_limits(self) -> FloatLimits {
        match self {
            Self::Float64 => symmetric(f64::EPSILON, f64::MAX, f64::MIN_POSITIVE, 15),
            Self::Float16 => symmetric(0.000_976_562_5, 65504.0, 6.103_515_625e-5, 3),
            Self::BFloat16 => {
                symmetric(0.007_812_5, 3.389_531_389_251_535_5e38, f32::MIN_POSITIVE as f64, 2)
            }
            Self::Float8E5m2 => symmetric(0.25, 57344.0, 6.103_515_625e-5, 0),
            Self::Float8E5m2fnuz => symmetric(0.25, 57344.0, 3.051_757_812_5e-5, 0),
            Self::Float8E4m3fn => symmetric(0.125, 448.0, 0.015_625, 0),
            Self::Float8E4m3fnuz => symmetric(0.125, 240.0, 0.007_812_5, 0),
            Self::Float8E8m0fnu => FloatLimits {
                eps: 1.0,
                min: 5.877_471_754_111_438e-39,
                max: 1.701_411_834_604_692_3e38,
                tiny: 5.877_471_754_111_438e-39,
                digits: 0,
            },
            _ => symmetric(f32::EPSILON as f64, f32::MAX as f64, f32::MIN_POSITIVE as f64, 6),
        }
    }
}

const fn symmetric(eps: f64, max: f64, tiny: f64, digits: i32) -> FloatLimits {
    FloatLimits { eps, min: -max, max, tiny, digits }
}
