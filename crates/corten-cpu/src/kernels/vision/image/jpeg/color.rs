//! Colours of samples, with the roundings of libjpeg.

use super::frame::Coding;
use crate::kernels::vision::image::Mode;

/// The channels of the result.
pub(super) fn channels(coding: Coding, components: usize, mode: Mode) -> Option<usize> {
    match (mode, coding) {
        (Mode::Unchanged, _) => Some(components),
        (_, Coding::Unknown) => None,
        (Mode::Grey, _) => Some(1),
        (Mode::Rgb, _) => Some(3),
        _ => None,
    }
}

/// Whether the result has the first component alone.
pub(super) fn is_first_alone(coding: Coding, mode: Mode) -> bool {
    coding == Coding::Grey || (coding == Coding::YCbCr && mode == Mode::Grey)
}

/// One row of the result from the rows of the components.
pub(super) fn convert(coding: Coding, mode: Mode, rows: &[&[u8]], out: &mut [u8]) {
    match (coding, mode, rows) {
        (Coding::Grey, Mode::Rgb, [grey, ..]) => each(out, |i| [grey[i]; 3]),
        (Coding::YCbCr, Mode::Grey, [grey, ..]) => out.copy_from_slice(&grey[..out.len()]),
        (Coding::YCbCr, _, [y, cb, cr]) => each(out, |i| rgb(y[i], cb[i], cr[i])),
        (Coding::Rgb, Mode::Grey, [r, g, b]) => each(out, |i| [grey([r[i], g[i], b[i]])]),
        (Coding::Cmyk, _, [c, m, y, k]) => ink(out, mode, |i| [c[i], m[i], y[i], k[i]]),
        (Coding::Ycck, _, [y, cb, cr, k]) => ink(out, mode, |i| {
            let [r, g, b] = rgb(y[i], cb[i], cr[i]);
            [255 - r, 255 - g, 255 - b, k[i]]
        }),
        _ => {
            let count = rows.len().max(1);
            for (i, out) in out.chunks_exact_mut(count).enumerate() {
                out.iter_mut().zip(rows).for_each(|(out, row)| *out = row[i]);
            }
        }
    }
}

#[inline(always)]
fn each<const N: usize>(out: &mut [u8], pixel: impl Fn(usize) -> [u8; N]) {
    for (i, out) in out.chunks_exact_mut(N).enumerate() {
        out.copy_from_slice(&pixel(i));
    }
}

/// Pixels of four inks, which the files have inverted.
fn ink(out: &mut [u8], mode: Mode, pixel: impl Fn(usize) -> [u8; 4]) {
    let colours = |i: usize| {
        let [c, m, y, k] = pixel(i);
        [c, m, y].map(|ink| {
            let covered = i32::from(k) * i32::from(255 - ink) + 128;
            (i32::from(k) - (((covered >> 8) + covered) >> 8)).clamp(0, 255) as u8
        })
    };
    match mode {
        Mode::Grey => each(out, |i| [grey(colours(i))]),
        Mode::Rgb => each(out, colours),
        _ => each(out, pixel),
    }
}

/// The brightness of a colour.
#[inline(always)]
fn grey([r, g, b]: [u8; 3]) -> u8 {
    let sum = u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471;
    ((sum + 32768) >> 16) as u8
}

#[inline(always)]
fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let clamped = |value: i32| value.clamp(0, 255) as u8;
    [
        clamped(y + ((91881 * cr + HALF) >> 16)),
        clamped(y + ((-22554 * cb - 46802 * cr + HALF) >> 16)),
        clamped(y + ((116130 * cb + HALF) >> 16)),
    ]
}
