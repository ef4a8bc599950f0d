//! Products on every processor.

use super::Kernels;
use crate::activations::GROUP;
use crate::{Activations, Format, Unpacked};

pub(super) const KERNELS: Kernels = Kernels { name: "portable", gemv, gemm };

/// See [`Gemm`](super::Gemm).
fn gemm(
    format: Format,
    rows: &[u8],
    columns: usize,
    x: &[Activations],
    out: &mut [f32],
    stride: usize,
) {
    for (x, out) in x.iter().zip(out.chunks_mut(stride)) {
        gemv(format, rows, x, &mut out[..columns]);
    }
}

/// See [`Gemv`](super::Gemv).
fn gemv(format: Format, rows: &[u8], x: &Activations, out: &mut [f32]) {
    let each = rows.len() / out.len().max(1);
    let mut block = Unpacked::new();
    for (row, out) in rows.chunks_exact(each.max(1)).zip(out) {
        *out = dot(format, row, x, &mut block);
    }
}

fn dot(format: Format, row: &[u8], x: &Activations, block: &mut Unpacked) -> f32 {
    let (elements, group) = (format.block_elements(), format.group_elements());
    let mut sum = 0.0;
    for (number, bytes) in row.chunks_exact(format.block_bytes()).enumerate() {
        if format.unpack(bytes, block).is_err() {
            return f32::NAN;
        }
        for (place, weights) in block.integers[..elements].chunks_exact(group).enumerate() {
            let start = number * elements + place * group;
            let activations = &x.integers()[start..start + group];
            let products = weights.iter().zip(activations);
            let product: i32 = products.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
            sum += block.scales[place] * x.scales[start / GROUP] * product as f32;
            if format.has_minimums() {
                let total =
                    if group == GROUP { x.totals[start / GROUP] } else { x.halves[start / 16] };
                sum -= block.minimums[place] * total;
            }
        }
    }
    sum
}
