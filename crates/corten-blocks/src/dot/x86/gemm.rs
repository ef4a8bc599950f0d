//! Products with several rows of activations: a panel of weights at a time.

use super::Kernel;
use super::panel::{Panel, is_signed};
use super::vector::Dot;
use super::wide::Wide;
use crate::Activations;
use crate::unpacked::Packing;

/// Rows of activations that are multiplied with a panel at once: their sums stay in registers.
const TILE: usize = 6;
/// The most rows of a panel.
const MOST_ROWS: usize = 16;

/// The operands of a product.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    /// The matrix.
    pub(super) bytes: &'a [u8],
    /// Its rows.
    pub(super) columns: usize,
    /// The activations, all of one length.
    pub(super) x: &'a [Activations],
    /// The distance between the results of two rows of activations.
    pub(super) stride: usize,
}

/// Computes a product.
#[inline(always)]
pub(super) fn multiply<K: Kernel, const DOT: u8>(v: Dot<DOT>, product: Product<'_>, out: &mut [f32])
where
    Dot<DOT>: Wide,
{
    let Product { bytes, columns, x, stride } = product;
    let (rows, each) = (Dot::<DOT>::ROWS, bytes.len() / columns);
    let mut panel = Panel::default();
    for (number, bytes) in bytes.chunks(rows * each).enumerate() {
        panel.fill::<K, DOT>(v, bytes, x[0].len());
        let (start, width) = (number * rows, bytes.len() / each);
        for (tile, x) in x.chunks(TILE).enumerate() {
            let out = &mut out[tile * TILE * stride + start..];
            match x.len() {
                6 => multiply_tile::<K, DOT, 6>(v, &panel, x, out, stride, width),
                5 => multiply_tile::<K, DOT, 5>(v, &panel, x, out, stride, width),
                4 => multiply_tile::<K, DOT, 4>(v, &panel, x, out, stride, width),
                3 => multiply_tile::<K, DOT, 3>(v, &panel, x, out, stride, width),
                2 => multiply_tile::<K, DOT, 2>(v, &panel, x, out, stride, width),
                _ => multiply_tile::<K, DOT, 1>(v, &panel, x, out, stride, width),
            }
        }
    }
}

/// The products of a panel with `N` rows of activations.
#[inline(always)]
fn multiply_tile<K: Kernel, const DOT: u8, const N: usize>(
    v: Dot<DOT>,
    panel: &Panel,
    x: &[Activations],
    out: &mut [f32],
    stride: usize,
    width: usize,
) where
    Dot<DOT>: Wide,
{
    let (rows, size) = (Dot::<DOT>::ROWS, <K::Packing as Packing>::GROUP);
    let mut sums = [v.no_floats(); N];
    for group in 0..x[0].len() / size {
        let ints = group_products::<K, DOT, N>(v, panel, x, group);
        let scales = v.load_rows(&panel.scales[group * rows..]);
        for i in 0..N {
            sums[i] = v.add_rows(sums[i], ints[i], scales, x[i].scales[group * size / 32]);
        }
        if <K::Packing as Packing>::HAS_MINIMUMS {
            let minimums = v.load_rows(&panel.minimums[group * rows..]);
            for i in 0..N {
                let total = if size == 32 { x[i].totals[group] } else { x[i].halves[group] };
                sums[i] = v.take_rows(sums[i], minimums, total);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        let mut results = [0.0; MOST_ROWS];
        v.store_rows(sums, &mut results);
        out[i * stride..i * stride + width].copy_from_slice(&results[..width]);
    }
}

/// The products of the integers of a group.
#[inline(always)]
fn group_products<K: Kernel, const DOT: u8, const N: usize>(
    v: Dot<DOT>,
    panel: &Panel,
    x: &[Activations],
    group: usize,
) -> [<Dot<DOT> as Wide>::Ints; N]
where
    Dot<DOT>: Wide,
{
    let (rows, size) = (Dot::<DOT>::ROWS, <K::Packing as Packing>::GROUP);
    let mut ints = [v.splat_int(0); N];
    if K::ZERO != 0 && !is_signed(DOT, K::ZERO) {
        for i in 0..N {
            let halves = &x[i].half_sums[group * size / 16..(group + 1) * size / 16];
            let sum: i32 = halves.iter().sum();
            ints[i] = v.splat_int(-i32::from(K::ZERO) * sum);
        }
    }
    // Slices of known lengths need no checks within the loop.
    let mut integers = [[].as_slice(); N];
    for i in 0..N {
        integers[i] = &x[i].integers()[group * size..][..size];
    }
    let levels = &panel.levels[group * size * rows..][..size * rows];
    for place in 0..size / 4 {
        let levels = v.load_levels(&levels[4 * rows * place..]);
        for i in 0..N {
            let four = four_of(integers[i], 4 * place);
            ints[i] = if is_signed(DOT, K::ZERO) {
                v.dot_rows::<true>(ints[i], levels, four)
            } else {
                v.dot_rows::<false>(ints[i], levels, four)
            };
        }
    }
    ints
}

/// Four integers from one on, in a word.
#[inline(always)]
fn four_of(integers: &[i8], start: usize) -> i32 {
    let four = integers[start..].first_chunk::<4>();
    four.map_or(0, |four| i32::from_le_bytes(four.map(|integer| integer as u8)))
}
