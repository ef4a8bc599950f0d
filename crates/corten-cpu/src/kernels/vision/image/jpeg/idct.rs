//! Samples of blocks: the inverse cosine transform in whole numbers, with the roundings of libjpeg's
//! accurate one.

/// Bits behind the point of the constants, and of what lies between the two passes.
const CONSTANT: u32 = 13;
const BETWEEN: u32 = 2;

/// One pass over eight numbers, which are `CONSTANT` bits longer then.
#[inline(always)]
fn pass(x: [i64; 8]) -> [i64; 8] {
    let z = (x[2] + x[6]) * 4433;
    let (even2, even3) = (z - x[6] * 15137, z + x[2] * 6270);
    let (even0, even1) = ((x[0] + x[4]) << CONSTANT, (x[0] - x[4]) << CONSTANT);
    let [a, d, b, c] = [even0 + even3, even0 - even3, even1 + even2, even1 - even2];

    let (z1, z2, z3, z4) = (x[7] + x[1], x[5] + x[3], x[7] + x[3], x[5] + x[1]);
    let z5 = (z3 + z4) * 9633;
    let (z1, z2) = (z1 * -7373, z2 * -20995);
    let (z3, z4) = (z3 * -16069 + z5, z4 * -3196 + z5);
    let odd0 = x[7] * 2446 + z1 + z3;
    let odd1 = x[5] * 16819 + z2 + z4;
    let odd2 = x[3] * 25172 + z2 + z3;
    let odd3 = x[1] * 12299 + z1 + z4;
    [a + odd3, b + odd2, c + odd1, d + odd0, d - odd0, c - odd1, b - odd2, a - odd3]
}

/// The number without its last bits, rounded.
#[inline(always)]
fn rounded(value: i64, bits: u32) -> i64 {
    (value + (1 << (bits - 1))) >> bits
}

/// The 64 samples of a block.
#[inline(always)]
pub(super) fn samples(coefficients: &[i16; 64], steps: &[u16; 64]) -> [u8; 64] {
    let mut between = [0i64; 64];
    for column in 0..8 {
        let at = |row: usize| {
            let place = row * 8 + column;
            i64::from(coefficients[place]) * i64::from(steps[place])
        };
        let values = [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)];
        if values[1..].iter().all(|&value| value == 0) {
            (0..8).for_each(|row| between[row * 8 + column] = values[0] << BETWEEN);
            continue;
        }
        for (row, value) in pass(values).into_iter().enumerate() {
            between[row * 8 + column] = rounded(value, CONSTANT - BETWEEN);
        }
    }
    let mut samples = [0; 64];
    for (row, out) in between.chunks_exact(8).zip(samples.chunks_exact_mut(8)) {
        let values = [row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]];
        for (out, value) in out.iter_mut().zip(pass(values)) {
            *out = (rounded(value, CONSTANT + BETWEEN + 3) + 128).clamp(0, 255) as u8;
        }
    }
    samples
}
