//! Contiguity, channels-last order and density, computed together after every change of shape.

use smallvec::SmallVec;

/// The cached properties of a geometry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContiguityFlags {
    pub(crate) contiguous: bool,
    pub(crate) channels_last: bool,
    pub(crate) channels_last_contiguous: bool,
    pub(crate) channels_last_3d: bool,
    pub(crate) channels_last_3d_contiguous: bool,
    pub(crate) non_overlapping_and_dense: bool,
}

impl ContiguityFlags {
    pub(crate) fn compute(sizes: &[i64], strides: &[i64], numel: i64) -> Self {
        if let (&[rows, cols], &[row, col]) = (sizes, strides) {
            return Self::of_matrix([rows, cols], [row, col], numel);
        }
        let mut flags =
            Self { contiguous: is_contiguous(sizes, strides, numel), ..Self::default() };
        match sizes.len() {
            4 => {
                flags.channels_last_contiguous = walk(sizes, strides, &[1, 3, 2, 0]);
                flags.channels_last = is_channels_last(sizes, strides, &[1, 3, 2, 0]);
            }
            5 => {
                flags.channels_last_3d_contiguous = walk(sizes, strides, &[1, 4, 3, 2, 0]);
                flags.channels_last_3d = is_channels_last(sizes, strides, &[1, 4, 3, 2, 0]);
            }
            _ => {}
        }
        flags.non_overlapping_and_dense = flags.contiguous
            || flags.channels_last_contiguous
            || flags.channels_last_3d_contiguous
            || is_non_overlapping_and_dense(sizes, strides);
        flags
    }

    /// [`compute`](Self::compute) for a matrix.
    pub(crate) fn of_matrix(sizes: [i64; 2], strides: [i64; 2], numel: i64) -> Self {
        let contiguous = is_contiguous(&sizes, &strides, numel);
        let non_overlapping_and_dense = contiguous || is_dense_matrix(sizes, strides);
        Self { contiguous, non_overlapping_and_dense, ..Self::default() }
    }
}

pub(crate) fn is_contiguous(sizes: &[i64], strides: &[i64], numel: i64) -> bool {
    if numel == 0 {
        return true;
    }
    let mut expected = 1_i64;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size != 1 {
            if stride != expected {
                return false;
            }
            expected = expected.wrapping_mul(size);
        }
    }
    true
}

/// Whether the dimensions in `order`, fastest first, follow each other without gaps.
fn walk(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let mut expected = 1_i64;
    for &d in order {
        if sizes[d] != 1 {
            if strides[d] != expected {
                return false;
            }
            expected = expected.wrapping_mul(sizes[d]);
        }
    }
    true
}

/// Whether the strides order the dimensions as channels-last does, gaps allowed. Unlike in the
/// other tests, dimensions of size 1 take part: their strides hold the only hint.
fn is_channels_last(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let mut min = 0;
    if strides[1] == 0 {
        return false;
    }
    for &d in order {
        if sizes[d] == 0 || strides[d] < min {
            return false;
        }
        // N111 and slices of N11W could be either; they fall back to contiguous.
        if d == 0 && min == strides[1] {
            return false;
        }
        min = strides[d].wrapping_mul(sizes[d].max(1));
    }
    true
}

fn is_dense_matrix([rows, cols]: [i64; 2], [row, col]: [i64; 2]) -> bool {
    match (rows < 2, cols < 2) {
        (true, true) => true,
        (true, false) => col == 1,
        (false, true) => row == 1,
        (false, false) => (col == 1 && row == cols) || (row == 1 && col == rows),
    }
}

fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if let [size] = *sizes {
        return size < 2 || strides[0] == 1;
    }
    let mut order: SmallVec<[usize; 8]> = (0..sizes.len()).collect();
    // Dimensions of size 0 or 1 go last, whatever their strides.
    order.sort_by_key(|&d| (sizes[d] < 2, strides[d]));
    let mut expected = 1_i64;
    for d in order {
        if sizes[d] < 2 {
            return true;
        }
        if strides[d] != expected {
            return false;
        }
        expected = expected.wrapping_mul(sizes[d]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_judged_as_tensors_are() {
        let few = 0..4_i64;
        for (rows, cols) in few.clone().flat_map(|rows| few.clone().map(move |cols| (rows, cols))) {
            for (row, col) in (0..5).flat_map(|row| (0..5).map(move |col| (row, col))) {
                let numel = rows * cols;
                // A dimension of one element changes nothing, and is no matrix.
                let expected = ContiguityFlags::compute(&[1, rows, cols], &[7, row, col], numel);
                let found = ContiguityFlags::compute(&[rows, cols], &[row, col], numel);
                assert_eq!(found, expected, "{rows} {cols}, strides {row} {col}");
                let found = ContiguityFlags::of_matrix([rows, cols], [row, col], numel);
                assert_eq!(found, expected, "{rows} {cols}, strides {row} {col}");
            }
        }
    }
}
