//! Scales and minimums with the least squared error.

/// The place of the number nearest to a value in a table that rises.
pub(crate) fn nearest(value: f32, table: &[i8; 16]) -> u8 {
    let above = table.partition_point(|&level| f32::from(level) < value).clamp(1, 15);
    let (low, high) = (f32::from(table[above - 1]), f32::from(table[above]));
    (if value - low < high - value { above - 1 } else { above }) as u8
}

/// A scale and a minimum of at least 0 for whole numbers from 0 to `most`: each weight is about
/// `scale * level - minimum`.
///
/// Levels for some scales around that of the range are taken in turn; for each the least-squares scale and minimum are
/// solved, and the best pair is kept.
pub(crate) fn affine(weights: &[f32], most: f32) -> (f32, f32) {
    let least = weights.iter().copied().fold(0.0, f32::min);
    let greatest = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = greatest - least;
    if range <= 0.0 || !range.is_finite() {
        return (0.0, -least);
    }
    let mut best = (range / most, -least);
    let mut error = affine_error(weights, best, most);
    for step in -10i8..=10 {
        let guess = range / (most + f32::from(step) * 0.1);
        if let Some(fitted) = solve_affine(weights, guess, least, most) {
            let found = affine_error(weights, fitted, most);
            if found < error {
                (best, error) = (fitted, found);
            }
        }
    }
    best
}

/// The least-squares pair for the levels that a scale and a least element give.
fn solve_affine(weights: &[f32], scale: f32, least: f32, most: f32) -> Option<(f32, f32)> {
    let count = weights.len() as f32;
    let [mut levels, mut squares, mut sums, mut products] = [0.0f32; 4];
    for &weight in weights {
        let level = ((weight - least) / scale).round().clamp(0.0, most);
        levels += level;
        squares += level * level;
        sums += weight;
        products += level * weight;
    }
    let determinant = count * squares - levels * levels;
    if determinant <= 0.0 {
        return None;
    }
    let fitted = (count * products - levels * sums) / determinant;
    let minimum = (levels * products - squares * sums) / determinant;
    if minimum >= 0.0 {
        return (fitted > 0.0).then_some((fitted, minimum));
    }
    // Minimums are not negative: the best scale without one.
    (squares > 0.0 && products > 0.0).then(|| (products / squares, 0.0))
}

fn affine_error(weights: &[f32], (scale, minimum): (f32, f32), most: f32) -> f32 {
    let error = |&weight: &f32| {
        let level = ((weight + minimum) / scale).round().clamp(0.0, most);
        (scale * level - minimum - weight).powi(2)
    };
    weights.iter().map(error).sum()
}

/// A scale, of either sign, for whole numbers from `-middle` to `middle - 1`.
pub(crate) fn symmetric(weights: &[f32], middle: f32) -> f32 {
    let most = crate::group32::largest(weights);
    if most == 0.0 || !most.is_finite() {
        return 0.0;
    }
    let mut best = most / -middle;
    let mut error = symmetric_error(weights, best, middle);
    for step in -9i8..=9 {
        let guess = most / -(middle + f32::from(step) * 0.1);
        let (mut squares, mut products) = (0.0f32, 0.0f32);
        for &weight in weights {
            let level = (weight / guess).round().clamp(-middle, middle - 1.0);
            squares += level * level;
            products += level * weight;
        }
        if squares > 0.0 {
            let fitted = products / squares;
            let found = symmetric_error(weights, fitted, middle);
            if found < error {
                (best, error) = (fitted, found);
            }
        }
    }
    best
}

fn symmetric_error(weights: &[f32], scale: f32, middle: f32) -> f32 {
    let error = |&weight: &f32| {
        let level = (weight / scale).round().clamp(-middle, middle - 1.0);
        (scale * level - weight).powi(2)
    };
    weights.iter().map(error).sum()
}
