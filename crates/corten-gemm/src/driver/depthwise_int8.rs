//! Depthwise convolutions of unsigned bytes: each channel has a kernel of its own.

#[cfg(target_arch = "x86_64")]
use crate::kernel::select::has_avx512_vnni;
#[cfg(target_arch = "x86_64")]
use crate::simd::vnni4;
use crate::types::isa::Isa;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Taps that are multiplied at once.
const GROUP: usize = 4;
/// Channels that are computed at a time.
const BLOCK: usize = 64;

/// The kernels of all channels, four neighbouring taps of each side by side.
///
/// ```
/// use corten_gemm::{DepthwiseInt8, Isa};
///
/// // Two channels with kernels of 1 x 3.
/// let kernels = DepthwiseInt8::of(&[1, 2, 3, -1, 0, 1], 2, [1, 3], Isa::Portable);
/// let mut sums = [0; 2];
/// kernels.sums(&[1, 10, 2, 20, 3, 30], &[0], 2, &mut sums);
/// assert_eq!(sums, [14, 20]);
/// ```
pub struct DepthwiseInt8 {
    channels: usize,
    width: usize,
    /// The number of groups of taps in a row of the kernel.
    groups: usize,
    taps: Vec<[i8; GROUP]>,
    has_vnni: bool,
}

#[cfg(target_arch = "x86_64")]
fn has_vnni(isa: Isa) -> bool {
    isa >= Isa::Avx512Vnni && has_avx512_vnni()
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vnni(_: Isa) -> bool {
    false
}

impl DepthwiseInt8 {
    /// The kernels of (channels, rows, width), for an instruction set.
    ///
    /// # Panics
    /// When the slice is too short.
    #[must_use]
    pub fn of(kernels: &[i8], channels: usize, [rows, width]: [usize; 2], isa: Isa) -> Self {
        let (groups, padded) = (width.div_ceil(GROUP), channels.next_multiple_of(BLOCK));
        let mut taps = vec![[0; GROUP]; rows * groups * padded];
        for channel in 0..channels {
            for row in 0..rows {
                for x in 0..width {
                    let at = (row * groups + x / GROUP) * padded + channel;
                    taps[at][x % GROUP] = kernels[(channel * rows + row) * width + x];
                }
            }
        }
        Self { channels, width, groups, taps, has_vnni: has_vnni(isa) }
    }

    /// The sums of all channels at a pixel: rows of the kernel lie at offsets of `pixels`, whose channels
    /// come last, and pixels of a row `step` apart.
    ///
    /// # Panics
    /// When a pixel lies outside the slice, or there is no room for the sums.
    pub fn sums(&self, pixels: &[u8], rows: &[usize], step: usize, sums: &mut [i32]) {
        let reach = (self.width - 1) * step + self.channels;
        assert!(rows.iter().all(|row| row + reach <= pixels.len()));
        assert!(sums.len() == self.channels && self.taps.len() >= rows.len() * self.row());
        #[cfg(target_arch = "x86_64")]
        if self.has_vnni {
            // SAFETY: the pixels lie in the slice, and the processor has the instructions.
            return unsafe { self.sums_by_vnni(pixels, rows, step, sums) };
        }
        self.sums_by_channel(pixels, rows, step, sums);
    }

    /// Taps of a row of the kernel.
    fn row(&self) -> usize {
        self.groups * self.channels.next_multiple_of(BLOCK)
    }

    fn sums_by_channel(&self, pixels: &[u8], rows: &[usize], step: usize, sums: &mut [i32]) {
        sums.fill(0);
        for (index, &row) in rows.iter().enumerate() {
            for x in 0..self.width {
                let pixel = &pixels[row + x * step..][..self.channels];
                let at = index * self.row() + x / GROUP * self.channels.next_multiple_of(BLOCK);
                let taps = &self.taps[at..][..self.channels];
                for ((sum, &byte), tap) in sums.iter_mut().zip(pixel).zip(taps) {
                    *sum += i32::from(byte) * i32::from(tap[x % GROUP]);
                }
            }
        }
    }

    /// # Safety
    /// All pixels of the rows must lie in the slice, and the processor must have AVX-512 VNNI.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn sums_by_vnni(&self, pixels: &[u8], rows: &[usize], step: usize, sums: &mut [i32]) {
        let padded = self.channels.next_multiple_of(BLOCK);
        for start in (0..self.channels).step_by(BLOCK) {
            let count = (self.channels - start).min(BLOCK);
            let mut totals = [_mm512_setzero_ps(); 4];
            for (index, &row) in rows.iter().enumerate() {
                for group in 0..self.groups {
                    let x = group * GROUP;
                    let first = pixels[row + x * step + start..].as_ptr();
                    let taps = self.taps[(index * self.groups + group) * padded + start..].as_ptr();
                    // SAFETY: the taps of the group lie in the slice for `count` channels, and there are
                    // kernels for a whole block.
                    unsafe {
                        let some = (self.width - x).min(GROUP);
                        let bytes = vnni4::interleave_4_rows(first, step as isize, some, count);
                        for (i, total) in totals.iter_mut().enumerate() {
                            let taps = _mm512_loadu_ps(taps.add(16 * i).cast());
                            *total = vnni4::dpbusd(bytes[i], taps, *total);
                        }
                    }
                }
            }
            let mut found = [0i32; BLOCK];
            for (total, to) in totals.into_iter().zip(found.chunks_mut(16)) {
                // SAFETY: a chunk is a vector.
                unsafe { _mm512_storeu_ps(to.as_mut_ptr().cast(), total) };
            }
            sums[start..start + count].copy_from_slice(&found[..count]);
        }
    }
}
