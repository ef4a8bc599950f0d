//! Kernels for AVX2, AVX-VNNI and AVX-512 VNNI, all over vectors of 32 bytes.

mod gemm;
mod group32;
mod k_quants;
mod panel;
mod super_blocks;
mod vector;
mod wide;

use super::Kernels;
use crate::Activations;
use crate::unpacked::Packing;
use gemm::Product;
use std::arch::is_x86_feature_detected;
use std::arch::x86_64::__m256i;
use std::sync::OnceLock;
use super_blocks::{rows as rows_by_super_blocks, skinny as skinny_by_super_blocks};
use vector::{Dot, Sums};

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
            integers: x.integers().as_chunks().0,
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
    /// How its blocks lie in memory.
    type Packing: Packing;
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
            v.prefetch_behind(pair);
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

/// The products of rows with a few activations, one after the other.
#[inline(always)]
fn one_by_one<K: Kernel, const DOT: u8>(v: Dot<DOT>, product: Product<'_>, out: &mut [f32]) {
    for (x, out) in product.x.iter().zip(out.chunks_mut(product.stride)) {
        rows::<K, DOT>(v, product.bytes, x, &mut out[..product.columns]);
    }
}

/// Calls a function generic over the kernel of a format.
macro_rules! for_format {
    ($format:expr, $function:ident::<_ $(, $dot:ident)?>($($argument:expr),*)) => {
        match $format {
            Format::Q4_0 => $function::<group32::Q4_0 $(, $dot)?>($($argument),*),
            Format::Q4_1 => $function::<group32::Q4_1 $(, $dot)?>($($argument),*),
            Format::Q5_0 => $function::<group32::Q5_0 $(, $dot)?>($($argument),*),
            Format::Q5_1 => $function::<group32::Q5_1 $(, $dot)?>($($argument),*),
            Format::Q8_0 => $function::<group32::Q8_0 $(, $dot)?>($($argument),*),
            Format::IQ4NL => $function::<group32::Iq4Nl $(, $dot)?>($($argument),*),
            Format::MXFP4 => $function::<group32::Mxfp4 $(, $dot)?>($($argument),*),
            Format::Q2K => $function::<k_quants::Q2K $(, $dot)?>($($argument),*),
            Format::Q3K => $function::<k_quants::Q3K $(, $dot)?>($($argument),*),
            Format::Q4K => $function::<k_quants::Q4K $(, $dot)?>($($argument),*),
            Format::Q5K => $function::<k_quants::Q5K $(, $dot)?>($($argument),*),
            Format::Q6K => $function::<k_quants::Q6K $(, $dot)?>($($argument),*),
            Format::IQ4XS => $function::<k_quants::Iq4Xs $(, $dot)?>($($argument),*),
        }
    };
}

/// Declares the kernels of an instruction set: a module of its name.
macro_rules! instruction_set {
    ($name:ident, $dot:ident, $features:literal, $rows:ident, $skinny:ident $(, $generic:ident)?) => {
        mod $name {
            use super::gemm::{Product, multiply};
            use super::vector::$dot;
            use super::{Dot, group32, k_quants, $skinny, $rows};
            use crate::dot::Kernels;
            use crate::{Activations, Format};

            pub(super) const KERNELS: Kernels =
                Kernels { name: stringify!($name), gemv, skinny, gemm };

            fn gemv(format: Format, bytes: &[u8], x: &Activations, out: &mut [f32]) {
                // SAFETY: `all` hands out the kernels only where the processor has the features.
                unsafe { gemv_inner(format, bytes, x, out) }
            }

            #[target_feature(enable = $features)]
            fn gemv_inner(format: Format, bytes: &[u8], x: &Activations, out: &mut [f32]) {
                // SAFETY: the features are those of this function.
                let v = unsafe { Dot::<$dot>::new() };
                for_format!(format, $rows::<_ $(, $generic)?>(v, bytes, x, out));
            }

            fn skinny(
                format: Format,
                bytes: &[u8],
                columns: usize,
                x: &[Activations],
                out: &mut [f32],
                stride: usize,
            ) {
                let product = Product { bytes, columns, x, stride };
                // SAFETY: `all` hands out the kernels only where the processor has the features.
                unsafe { skinny_inner(format, product, out) }
            }

            #[target_feature(enable = $features)]
            fn skinny_inner(format: Format, product: Product<'_>, out: &mut [f32]) {
                // SAFETY: the features are those of this function.
                let v = unsafe { Dot::<$dot>::new() };
                for_format!(format, $skinny::<_ $(, $generic)?>(v, product, out));
            }

            fn gemm(
                format: Format,
                bytes: &[u8],
                columns: usize,
                x: &[Activations],
                out: &mut [f32],
                stride: usize,
            ) {
                let product = Product { bytes, columns, x, stride };
                // SAFETY: `all` hands out the kernels only where the processor has the features.
                unsafe { gemm_inner(format, product, out) }
            }

            #[target_feature(enable = $features)]
            fn gemm_inner(format: Format, product: Product<'_>, out: &mut [f32]) {
                // SAFETY: the features are those of this function.
                let v = unsafe { Dot::<$dot>::new() };
                for_format!(format, multiply::<_, $dot>(v, product, out));
            }
        }
    };
}

instruction_set!(avx2, MADDUBS, "avx2,fma,f16c", rows, one_by_one, MADDUBS);
instruction_set!(avx_vnni, AVX_VNNI, "avx2,fma,f16c,avxvnni", rows, one_by_one, AVX_VNNI);
instruction_set!(
    avx512_vnni,
    AVX512_VNNI,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni",
    rows_by_super_blocks,
    skinny_by_super_blocks
);

/// The kernels that this processor can run, the fastest last.
pub(super) fn all() -> Vec<Kernels> {
    let mut found = Vec::new();
    let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if !has || !is_x86_feature_detected!("f16c") {
        return found;
    }
    found.push(avx2::KERNELS);
    if is_x86_feature_detected!("avxvnni") {
        found.push(avx_vnni::KERNELS);
    }
    let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let has = has && is_x86_feature_detected!("avx512vl");
    if has && is_x86_feature_detected!("avx512vnni") {
        found.push(avx512_vnni::KERNELS);
    }
    found
}

/// The fastest of them.
pub(super) fn find() -> Option<Kernels> {
    static FOUND: OnceLock<Option<Kernels>> = OnceLock::new();
    *FOUND.get_or_init(|| all().last().copied())
}
