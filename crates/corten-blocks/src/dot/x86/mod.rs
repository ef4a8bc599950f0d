//! Kernels for AVX2, AVX-VNNI and AVX-512 VNNI, all over vectors of 32 bytes.

mod group32;
mod k_quants;
mod vector;

use super::Gemv;
use crate::{Activations, Format};
use std::arch::is_x86_feature_detected;
use std::arch::x86_64::__m256i;
use std::sync::OnceLock;
use vector::{AVX_VNNI, AVX512_VNNI, Dot, MADDUBS, Sums};

/// The activations that belong to one block.
#[derive(Clone, Copy)]
struct Operand<'a> {
    integers: &'a [[i8; 32]],
    scales: &'a [f32],
    sums: &'a [[i32; 8]],
    halves: &'a [f32],
    totals: &'a [f32],
}

impl<'a> Operand<'a> {
    fn of(x: &'a Activations) -> Self {
        Self {
            integers: x.integers.as_chunks().0,
            scales: &x.scales,
            sums: x.sums.as_chunks().0,
            halves: &x.halves,
            totals: &x.totals,
        }
    }

    /// So many groups from one on.
    ///
    /// # Safety
    /// The activations have them.
    #[inline(always)]
    unsafe fn groups(self, start: usize, count: usize) -> Self {
        let end = start + count;
        // SAFETY: the caller's, and `Activations` has as many of each for all of its groups.
        unsafe {
            Self {
                integers: self.integers.get_unchecked(start..end),
                scales: self.scales.get_unchecked(start..end),
                sums: self.sums.get_unchecked(start..end),
                halves: self.halves.get_unchecked(2 * start..2 * end),
                totals: self.totals.get_unchecked(start..end),
            }
        }
    }
}

/// The product of a block of a format with its activations.
trait Kernel {
    /// Bytes of a block.
    const NBYTES: usize;
    /// Groups of 32 activations of a block.
    const GROUPS: usize;
    /// The level that stands for zero.
    const ZERO: u8;

    /// The levels of a group, above zero.
    fn levels<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], group: usize) -> __m256i;

    /// Adds the products of a block to sums.
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums);
}

/// The products of rows with activations.
#[inline(always)]
fn rows<K: Kernel, const DOT: u8>(v: Dot<DOT>, rows: &[u8], x: &Activations, out: &mut [f32]) {
    let (each, operand) = (rows.len() / out.len(), Operand::of(x));
    assert!(each / K::NBYTES * K::GROUPS <= operand.scales.len(), "a group for each of the blocks");
    for (row, out) in rows.chunks_exact(each).zip(out) {
        let (mut even, mut odd) = (v.no_sums(), v.no_sums());
        let pairs = row.chunks_exact(2 * K::NBYTES);
        let (count, rest) = (pairs.len(), pairs.remainder());
        for (number, pair) in pairs.enumerate() {
            let (first, second) = pair.split_at(K::NBYTES);
            let start = 2 * number * K::GROUPS;
            // SAFETY: the groups of the row's blocks are there, as was asserted.
            let (of_first, of_second) = unsafe {
                let second = operand.groups(start + K::GROUPS, K::GROUPS);
                (operand.groups(start, K::GROUPS), second)
            };
            K::block(v, first, of_first, &mut even);
            K::block(v, second, of_second, &mut odd);
        }
        if rest.len() == K::NBYTES {
            // SAFETY: as above.
            let of_rest = unsafe { operand.groups(2 * count * K::GROUPS, K::GROUPS) };
            K::block(v, rest, of_rest, &mut even);
        }
        *out = v.total(even, odd);
    }
}

#[inline(always)]
fn of_format<const DOT: u8>(
    v: Dot<DOT>,
    format: Format,
    bytes: &[u8],
    x: &Activations,
    out: &mut [f32],
) {
    match format {
        Format::Q4_0 => rows::<group32::Q4_0, DOT>(v, bytes, x, out),
        Format::Q4_1 => rows::<group32::Q4_1, DOT>(v, bytes, x, out),
        Format::Q5_0 => rows::<group32::Q5_0, DOT>(v, bytes, x, out),
        Format::Q5_1 => rows::<group32::Q5_1, DOT>(v, bytes, x, out),
        Format::Q8_0 => rows::<group32::Q8_0, DOT>(v, bytes, x, out),
        Format::IQ4NL => rows::<group32::Iq4Nl, DOT>(v, bytes, x, out),
        Format::MXFP4 => rows::<group32::Mxfp4, DOT>(v, bytes, x, out),
        Format::Q2K => rows::<k_quants::Q2K, DOT>(v, bytes, x, out),
        Format::Q3K => rows::<k_quants::Q3K, DOT>(v, bytes, x, out),
        Format::Q4K => rows::<k_quants::Q4K, DOT>(v, bytes, x, out),
        Format::Q5K => rows::<k_quants::Q5K, DOT>(v, bytes, x, out),
        Format::Q6K => rows::<k_quants::Q6K, DOT>(v, bytes, x, out),
        Format::IQ4XS => rows::<k_quants::Iq4Xs, DOT>(v, bytes, x, out),
    }
}

/// Declares the kernels of an instruction set.
macro_rules! instruction_set {
    ($outer:ident, $inner:ident, $dot:ident, $features:literal) => {
        fn $outer(format: Format, rows: &[u8], x: &Activations, out: &mut [f32]) {
            // SAFETY: `all` and `find` hand out the function only where the processor has the features.
            unsafe { $inner(format, rows, x, out) }
        }

        #[target_feature(enable = $features)]
        fn $inner(format: Format, rows: &[u8], x: &Activations, out: &mut [f32]) {
            // SAFETY: the features are those of this function.
            of_format(unsafe { Dot::<$dot>::new() }, format, rows, x, out);
        }
    };
}

instruction_set!(avx2, avx2_inner, MADDUBS, "avx2,fma,f16c");
instruction_set!(avx_vnni, avx_vnni_inner, AVX_VNNI, "avx2,fma,f16c,avxvnni");
instruction_set!(
    avx512_vnni,
    avx512_vnni_inner,
    AVX512_VNNI,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni"
);

/// The kernels that this processor can run, the fastest last.
pub(super) fn all() -> Vec<(&'static str, Gemv)> {
    let mut found: Vec<(&'static str, Gemv)> = Vec::new();
    let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if !has || !is_x86_feature_detected!("f16c") {
        return found;
    }
    found.push(("avx2", avx2));
    if is_x86_feature_detected!("avxvnni") {
        found.push(("avx_vnni", avx_vnni));
    }
    let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let has = has && is_x86_feature_detected!("avx512vl");
    if has && is_x86_feature_detected!("avx512vnni") {
        found.push(("avx512_vnni", avx512_vnni));
    }
    found
}

/// The fastest of them.
pub(super) fn find() -> Option<Gemv> {
    static FOUND: OnceLock<Option<Gemv>> = OnceLock::new();
    *FOUND.get_or_init(|| all().last().map(|(_, gemv)| *gemv))
}
