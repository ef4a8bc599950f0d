//! The AMX micro-kernel: outer products in tile registers of 16 rows of 16 `f32`, to which `tdpbf16ps`
//! adds the dot products of 16 VNNI2 pairs (Intel 64 and IA-32 Architectures Optimization Reference
//! Manual, chapter on AMX).
//!
//! The register block is two by two tile registers, so that every register of an operand is used twice.
//! Rust has no names for these registers: they hold values only within a block of assembly.

use crate::kernel::args::{MicroKernelArgs, MicroKernels};
use crate::pack::pack_kernels;
use crate::pack::packing::Packing;
use crate::simd::x86::Avx512Vnni2;
use crate::types::accumulate::Accumulate;
use crate::types::isa::Isa;
use crate::types::vnni::Vnni2;
use std::arch::asm;
use std::cell::Cell;

/// Rows of a tile register, and VNNI2 pairs of a row.
const ROWS: usize = 16;
const PAIRS: usize = 16;

macro_rules! heights {
    ($registers:literal: $($rows:literal),+) => { &[$(micro_kernel::<$rows, $registers>),+] };
    ($registers:literal) => {
        heights!($registers: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
            17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32)
    };
}

/// The micro-kernels of VNNI2 in tile registers; see [`has_amx`](crate::has_amx).
#[inline(never)]
pub(crate) fn amx_kernels() -> &'static MicroKernels<Vnni2> {
    &const {
        MicroKernels {
            packing: Packing {
                lanes: PAIRS,
                isa: Isa::Amx,
                nr_vectors: 2,
                mr: 2 * ROWS,
                pack_b: pack_kernels::on_avx512_bf16::pack_kernels::<Avx512Vnni2>(),
                pack_a: pack_kernels::on_avx512_bf16::pack_kernels::<Avx512Vnni2>(),
            },
            row_major: &[heights!(1), heights!(2)],
            col_major: &[],
            fused_packing: &[],
        }
    }
}

/// # Safety
/// As for [`MicroKernel`](crate::kernel::args::MicroKernel), of a row-major `a` in one segment, without
/// a bias.
unsafe fn micro_kernel<const HEIGHT: usize, const VECTORS: usize>(args: &MicroKernelArgs<Vnni2>) {
    // SAFETY: the caller's.
    unsafe { multiply(args, HEIGHT, VECTORS) }
}

/// A register block of some rows and tile registers of columns.
///
/// # Safety
/// As for [`micro_kernel`].
unsafe fn multiply(args: &MicroKernelArgs<Vnni2>, height: usize, vectors: usize) {
    let mut accumulate = match args.accumulate {
        Accumulate::Overwrite => false,
        Accumulate::Beta(_) => true,
        Accumulate::RowBias(_) | Accumulate::ColumnBias(_) => {
            unreachable!("AMX adds no bias")
        }
    };
    let (mut a, mut b) = (args.a, args.b);
    for (pairs, times) in [(PAIRS, args.depth / PAIRS), (args.depth % PAIRS, 1)] {
        if pairs == 0 || times == 0 {
            continue;
        }
        let slice = KSlice { a, b, pairs, times, accumulate };
        // SAFETY: the caller's, for these steps.
        unsafe {
            match (height > ROWS, vectors > 1) {
                (false, false) => slice.add::<false, false>(args, height),
                (false, true) => slice.add::<false, true>(args, height),
                (true, false) => slice.add::<true, false>(args, height),
                (true, true) => slice.add::<true, true>(args, height),
            }
        }
        accumulate = true;
        a = a.wrapping_add(pairs * times);
        b = b.wrapping_offset((pairs * times) as isize * args.ldb);
    }
}

thread_local! {
    /// The rows and pairs that this thread's tile registers are configured for.
    static CONFIGURED: Cell<[usize; 2]> = const { Cell::new(EMPTY) };
}

/// Tile registers that are not configured.
const EMPTY: [usize; 2] = [0, 0];

/// A thread's permission to use tile registers. They are configured anew only for another size, since
/// that takes as long as a tenth of a micro-kernel, and released in the end, so that a context switch
/// has nothing to save.
pub(crate) struct TileRegisters;

impl TileRegisters {
    /// Assumes nothing about the configuration of this thread.
    pub(crate) fn take() -> Self {
        CONFIGURED.set(EMPTY);
        Self
    }

    /// # Safety
    /// The processor must have the instructions, and the program the permission to use them.
    unsafe fn configure(height: usize, pairs: usize) {
        if CONFIGURED.replace([height, pairs]) != [height, pairs] {
            let config = TileConfig::of(height, pairs);
            // SAFETY: reads the configuration. The compiler does not know these registers.
            unsafe {
                asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, readonly))
            };
        }
    }
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        if CONFIGURED.replace(EMPTY) != EMPTY {
            // SAFETY: this thread has used the registers, so the processor has the
            // instruction; their values are not needed.
            unsafe { asm!("tilerelease", options(nostack, nomem)) };
        }
    }
}

/// Some steps of a micro-kernel.
struct KSlice {
    a: *const Vnni2,
    b: *const Vnni2,
    /// The pairs of a row of a tile register, and the number of tile registers along the depth.
    pairs: usize,
    times: usize,
    /// Whether they are accumulated into the result.
    accumulate: bool,
}

/// The configuration of tile registers that `ldtilecfg` loads: rows, and bytes of a row.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Tile registers 0 to 3 accumulate, two beside and two below each other, 4 and 5 hold rows of
    /// `a`, one below the other, and 6 and 7 columns of `b`.
    fn of(height: usize, pairs: usize) -> Self {
        let (top, below) = (height.min(ROWS) as u8, height.saturating_sub(ROWS) as u8);
        let (all, some) = ((4 * PAIRS) as u16, (4 * pairs) as u16);
        let mut this =
            Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let rows_of = [top, top, below, below, top, below, pairs as u8, pairs as u8];
        for (register, rows) in rows_of.into_iter().enumerate().filter(|&(_, rows)| rows > 0) {
            this.rows[register] = rows;
            this.row_bytes[register] = if (4..6).contains(&register) { some } else { all };
        }
        this
    }
}

/// A block of assembly: what clears or loads the accumulators, a step, and what stores them; and the
/// operands of the lower tile registers, if there are any.
///
/// Rows of `a` are loaded non-temporally, as the first-level cache has no room for them beside a piece
/// of a micro-panel.
macro_rules! assembly {
    ($slice:ident, $args:ident, [$($clear:literal)+] [$($load:literal)+]
        [$($step:literal)+] [$($store:literal)+] $(, $below:ident = $operand:tt ($($value:tt)+))*) => {
        asm!(
            "test {accumulate:e}, {accumulate:e}",
            "jnz 2f",
            $($clear,)+
            "jmp 3f",
            "2:",
            $($load,)+
            "3:",
            $($step,)+
            "add {a}, 64",
            "add {b}, {b_step}",
            "dec {times}",
            "jnz 3b",
            $($store,)+
            accumulate = in(reg) u32::from($slice.accumulate),
            a = inout(reg) $slice.a => _,
            b = inout(reg) $slice.b => _,
            times = inout(reg) $slice.times => _,
            a_row = in(reg) 4 * $args.lda,
            b_row = in(reg) 4 * $args.ldb,
            b_step = in(reg) 4 * PAIRS as isize * $args.ldb,
            c = in(reg) $args.c,
            c_row = in(reg) 4 * $args.ldc,
            $($below = $operand(reg) $($value)+,)*
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

impl KSlice {
    /// Accumulates the products of these steps.
    ///
    /// # Safety
    /// As for [`micro_kernel`], for these steps of these rows and columns.
    unsafe fn add<const BELOW: bool, const BESIDE: bool>(
        &self,
        args: &MicroKernelArgs<Vnni2>,
        height: usize,
    ) {
        let a_below = self.a.wrapping_offset(ROWS as isize * args.lda);
        let c_below = args.c.wrapping_offset(ROWS as isize * args.ldc);
        // SAFETY: the caller's. The tile registers are configured for the rows, columns and
        // steps, so nothing else is read or written, and such micro-kernels exist only where the
        // program has permission.
        unsafe {
            TileRegisters::configure(height, self.pairs);
            match (BELOW, BESIDE) {
                (false, false) => assembly!(self, args,
                    ["tilezero tmm0"]
                    ["tileloadd tmm0, [{c} + {c_row}*1]"]
                    ["tileloadd tmm6, [{b} + {b_row}*1]"
                     "tileloaddt1 tmm4, [{a} + {a_row}*1]"
                     "tdpbf16ps tmm0, tmm4, tmm6"]
                    ["tilestored [{c} + {c_row}*1], tmm0"]),
                (false, true) => assembly!(self, args,
                    ["tilezero tmm0" "tilezero tmm1"]
                    ["tileloadd tmm0, [{c} + {c_row}*1]"
                     "tileloadd tmm1, [{c} + {c_row}*1 + 64]"]
                    ["tileloadd tmm6, [{b} + {b_row}*1]"
                     "tileloaddt1 tmm4, [{a} + {a_row}*1]"
                     "tdpbf16ps tmm0, tmm4, tmm6"
                     "tileloadd tmm7, [{b} + {b_row}*1 + 64]"
                     "tdpbf16ps tmm1, tmm4, tmm7"]
                    ["tilestored [{c} + {c_row}*1], tmm0"
                     "tilestored [{c} + {c_row}*1 + 64], tmm1"]),
                (true, false) => assembly!(self, args,
                    ["tilezero tmm0" "tilezero tmm2"]
                    ["tileloadd tmm0, [{c} + {c_row}*1]"
                     "tileloadd tmm2, [{c_below} + {c_row}*1]"]
                    ["tileloadd tmm6, [{b} + {b_row}*1]"
                     "tileloaddt1 tmm4, [{a} + {a_row}*1]"
                     "tdpbf16ps tmm0, tmm4, tmm6"
                     "tileloaddt1 tmm5, [{a_below} + {a_row}*1]"
                     "tdpbf16ps tmm2, tmm5, tmm6"
                     "add {a_below}, 64"]
                    ["tilestored [{c} + {c_row}*1], tmm0"
                     "tilestored [{c_below} + {c_row}*1], tmm2"],
                    a_below = inout(a_below => _), c_below = in(c_below)),
                (true, true) => assembly!(self, args,
                    ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
                    ["tileloadd tmm0, [{c} + {c_row}*1]"
                     "tileloadd tmm1, [{c} + {c_row}*1 + 64]"
                     "tileloadd tmm2, [{c_below} + {c_row}*1]"
                     "tileloadd tmm3, [{c_below} + {c_row}*1 + 64]"]
                    ["tileloadd tmm6, [{b} + {b_row}*1]"
                     "tileloaddt1 tmm4, [{a} + {a_row}*1]"
                     "tdpbf16ps tmm0, tmm4, tmm6"
                     "tileloadd tmm7, [{b} + {b_row}*1 + 64]"
                     "tdpbf16ps tmm1, tmm4, tmm7"
                     "tileloaddt1 tmm5, [{a_below} + {a_row}*1]"
                     "tdpbf16ps tmm2, tmm5, tmm6"
                     "tdpbf16ps tmm3, tmm5, tmm7"
                     "add {a_below}, 64"]
                    ["tilestored [{c} + {c_row}*1], tmm0"
                     "tilestored [{c} + {c_row}*1 + 64], tmm1"
                     "tilestored [{c_below} + {c_row}*1], tmm2"
                     "tilestored [{c_below} + {c_row}*1 + 64], tmm3"],
                    a_below = inout(a_below => _), c_below = in(c_below)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TileConfig;

    #[test]
    fn registers_are_as_large_as_what_they_hold() {
        assert_eq!(size_of::<TileConfig>(), 64);
        let whole = TileConfig::of(32, 16);
        assert_eq!((whole.palette, whole.rows[..8].iter().all(|&rows| rows == 16)), (1, true));
        assert!(whole.row_bytes[..8].iter().all(|&row_bytes| row_bytes == 64));
        assert_eq!(
            (whole.rows[8..].iter().max(), whole.row_bytes[8..].iter().max()),
            (Some(&0), Some(&0))
        );
        let slice = TileConfig::of(19, 5);
        assert_eq!(slice.rows[..8], [16, 16, 3, 3, 16, 3, 5, 5]);
        assert_eq!(slice.row_bytes[..8], [64, 64, 64, 64, 20, 20, 64, 64]);
        let low = TileConfig::of(7, 16);
        assert_eq!(low.rows[..8], [7, 7, 0, 0, 7, 0, 16, 16]);
        assert_eq!(low.row_bytes[..8], [64, 64, 0, 0, 64, 0, 64, 64]);
    }
}
