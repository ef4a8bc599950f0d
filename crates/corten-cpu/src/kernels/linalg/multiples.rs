//! Multiples of rows that are subtracted from others: what substitution and elimination consist of.

use super::matrices::Number;

/// Rows of which multiples are subtracted at a time, so that the other one is read and written less
/// often.
pub(super) const AT_ONCE: usize = 4;

/// `row -= factors[0] * other(0)`, then the next one, for at most [`AT_ONCE`] others.
#[inline(always)]
pub(super) fn subtract_multiples<'a, T: Number>(
    row: &mut [T],
    other: impl Fn(usize) -> &'a [T],
    factors: &[T],
) {
    match *factors {
        [f, g, h, i] => {
            let others = other(0).iter().zip(other(1)).zip(other(2)).zip(other(3));
            for (x, (((&a, &b), &c), &d)) in row.iter_mut().zip(others) {
                *x = *x - a * f - b * g - c * h - d * i;
            }
        }
        [f, g, h] => {
            let others = other(0).iter().zip(other(1)).zip(other(2));
            for (x, ((&a, &b), &c)) in row.iter_mut().zip(others) {
                *x = *x - a * f - b * g - c * h;
            }
        }
        [f, g] => {
            for (x, (&a, &b)) in row.iter_mut().zip(other(0).iter().zip(other(1))) {
                *x = *x - a * f - b * g;
            }
        }
        [f] => row.iter_mut().zip(other(0)).for_each(|(x, &a)| *x = *x - a * f),
        _ => {}
    }
}
