//! Writing JPEG files: the bytes that libjpeg writes with its accurate transform, colours at half
//! the size and the codes of the standard.

use super::frame::ZIGZAG;
use corten_core::{Result, ensure, try_push, try_vec};

/// The steps of brightness and of colours at quality 50, row by row.
const BRIGHTNESS: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];
const COLOURS: [u16; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// The codes of the standard: how many symbols there are of each length, and the symbols.
struct Code {
    counts: [u8; 16],
    symbols: &'static [u8],
}

const FIRST: [Code; 2] = [
    Code {
        counts: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        symbols: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    },
    Code {
        counts: [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        symbols: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    },
];
const OTHER: [Code; 2] = [
    Code {
        counts: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
        symbols: &[
            0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51,
            0x61, 0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1,
            0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18,
            0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39,
            0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57,
            0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75,
            0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92,
            0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
            0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
            0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8,
            0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2,
            0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
        ],
    },
    Code {
        counts: [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
        symbols: &[
            0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07,
            0x61, 0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09,
            0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25,
            0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38,
            0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56,
            0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74,
            0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
            0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
            0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
            0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6,
            0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2,
            0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
        ],
    },
];

/// The bits of each symbol of a code, and how many.
type Bits = [(u32, u32); 256];

impl Code {
    /// The bits of each symbol, and how many.
    fn bits(&self) -> Bits {
        let mut bits = [(0, 0); 256];
        let (mut code, mut symbols) = (0, self.symbols.iter());
        for (length, &count) in (1..).zip(&self.counts) {
            for &symbol in symbols.by_ref().take(usize::from(count)) {
                bits[usize::from(symbol)] = (code, length);
                code += 1;
            }
            code <<= 1;
        }
        bits
    }
}

/// The bytes of a file of an image whose pixels lie side by side, channels last.
///
/// # Errors
/// `Runtime` for sizes that no file has.
pub(in super::super) fn encode(
    pixels: &[u8],
    [height, width, channels]: [usize; 3],
    quality: i64,
) -> Result<Vec<u8>> {
    ensure!(height > 0 && width > 0, Runtime, "Empty input image");
    ensure!(
        height <= 65500 && width <= 65500,
        Runtime,
        "Maximum supported image dimension is 65500 pixels"
    );
    let steps = [BRIGHTNESS, COLOURS].map(|steps| scaled(steps, quality));
    let mut out = Output { bytes: Vec::new(), word: 0, count: 0 };
    out.bytes(&[0xff, 0xd8, 0xff, 0xe0, 0, 16])?;
    out.bytes(b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0")?;
    let tables = channels.min(2);
    for (nr, steps) in steps[..tables].iter().enumerate() {
        out.bytes(&[0xff, 0xdb, 0, 67, nr as u8])?;
        out.bytes(&ZIGZAG.map(|place| steps[usize::from(place)] as u8))?;
    }
    let [h, w] = [height, width].map(|size| (size as u16).to_be_bytes());
    out.bytes(&[0xff, 0xc0, 0, 8 + 3 * channels as u8, 8])?;
    out.bytes(&[h[0], h[1], w[0], w[1], channels as u8])?;
    for nr in 0..channels as u8 {
        let sampling = if nr == 0 && channels == 3 { 0x22 } else { 0x11 };
        out.bytes(&[nr + 1, sampling, nr.min(1)])?;
    }
    for nr in 0..tables {
        for (class, code) in [(0, &FIRST[nr]), (0x10, &OTHER[nr])] {
            let size = 19 + code.symbols.len() as u16;
            out.bytes(&[0xff, 0xc4])?;
            out.bytes(&size.to_be_bytes())?;
            out.bytes(&[class | nr as u8])?;
            out.bytes(&code.counts)?;
            out.bytes(code.symbols)?;
        }
    }
    out.bytes(&[0xff, 0xda, 0, 6 + 2 * channels as u8, channels as u8])?;
    for nr in 0..channels as u8 {
        out.bytes(&[nr + 1, nr.min(1) * 0x11])?;
    }
    out.bytes(&[0, 63, 0])?;
    units(pixels, [height, width, channels], &steps, &mut out)?;
    out.end()?;
    out.bytes(&[0xff, 0xd9])?;
    Ok(out.bytes)
}

/// The steps at a quality.
fn scaled(steps: [u16; 64], quality: i64) -> [u16; 64] {
    let quality = quality.clamp(1, 100) as u32;
    let percent = if quality < 50 { 5000 / quality } else { 200 - quality * 2 };
    steps.map(|step| ((u32::from(step) * percent + 50) / 100).clamp(1, 255) as u16)
}

/// One component: its samples in whole units.
struct Samples {
    width: usize,
    values: Vec<u8>,
    /// The blocks that hold samples of the image, down and across.
    used: [usize; 2],
}

/// Writes all units of an image.
fn units(
    pixels: &[u8],
    [height, width, channels]: [usize; 3],
    steps: &[[u16; 64]; 2],
    out: &mut Output,
) -> Result<()> {
    let bits = [0, 1].map(|nr| (FIRST[nr].bits(), OTHER[nr].bits()));
    let per_unit = if channels == 3 { 2 } else { 1 };
    let [down, across] = [height, width].map(|size| size.div_ceil(8 * per_unit));
    let planes = components(pixels, [height, width, channels], [down, across])?;
    let mut before = [0; 3];
    for unit in 0..down * across {
        let (row, column) = (unit / across, unit % across);
        for (nr, plane) in planes.iter().enumerate() {
            let parts = if nr == 0 { per_unit } else { 1 };
            for part in 0..parts * parts {
                let at = [row * parts + part / parts, column * parts + part % parts];
                let block = match at[0] < plane.used[0] && at[1] < plane.used[1] {
                    true => block(plane, at, &steps[nr.min(1)]),
                    // What only fills the last unit is of the mean of the block before.
                    false => std::array::from_fn(|i| if i == 0 { before[nr] } else { 0 }),
                };
                out.block(&block, &mut before[nr], &bits[nr.min(1)])?;
            }
        }
    }
    Ok(())
}

/// Brightness and colours, the latter at half the size, their last samples repeated to whole units.
fn components(
    pixels: &[u8],
    [height, width, channels]: [usize; 3],
    [down, across]: [usize; 2],
) -> Result<Vec<Samples>> {
    let per_unit = if channels == 3 { 16 } else { 8 };
    let (rows, columns) = (down * per_unit, across * per_unit);
    // Bounded: one or three.
    let mut planes = Vec::with_capacity(channels);
    for channel in 0..channels {
        let mut values = try_vec(0u8, rows * columns)?;
        for (row, out) in values.chunks_exact_mut(columns).enumerate() {
            let line = &pixels[row.min(height - 1) * width * channels..][..width * channels];
            for (column, out) in out.iter_mut().enumerate() {
                let pixel = &line[column.min(width - 1) * channels..][..channels];
                *out = if channels == 3 { component(pixel, channel) } else { pixel[0] };
            }
        }
        let used = [height, width].map(|size| size.div_ceil(8));
        let plane = Samples { width: columns, values, used };
        planes.push(if channel == 0 { plane } else { halved(&plane, height.div_ceil(2))? });
    }
    Ok(planes)
}

/// Brightness, blue or red of a colour.
fn component(pixel: &[u8], channel: usize) -> u8 {
    let weights = [[19595, 38470, 7471], [-11059, -21709, 32768], [32768, -27439, -5329]][channel];
    let offset = if channel == 0 { 1 << 15 } else { (128 << 16) + (1 << 15) - 1 };
    let sum = pixel.iter().zip(weights).map(|(&value, weight)| i32::from(value) * weight);
    ((sum.sum::<i32>() + offset) >> 16) as u8
}

/// The means of four samples, rounded down and up by turns; the last of `known` rows is repeated.
fn halved(plane: &Samples, known: usize) -> Result<Samples> {
    let (width, rows) = (plane.width / 2, plane.values.len() / plane.width / 2);
    let mut values = try_vec(0u8, width * rows)?;
    for (row, out) in values.chunks_exact_mut(width).enumerate() {
        let first = row.min(known - 1) * 2 * plane.width;
        let (above, below) = plane.values[first..].split_at(plane.width);
        for (column, out) in out.iter_mut().enumerate() {
            let sum = |line: &[u8]| u32::from(line[column * 2]) + u32::from(line[column * 2 + 1]);
            *out = ((sum(above) + sum(below) + 1 + (column % 2) as u32) >> 2) as u8;
        }
    }
    let used = plane.used.map(|blocks| blocks.div_ceil(2));
    Ok(Samples { width, values, used })
}

/// One pass of the cosine transform over eight numbers, whose results are 13 bits longer but for the
/// first and the fifth.
#[inline(always)]
fn pass(x: [i32; 8]) -> [i32; 8] {
    let sum = |i: usize| x[i] + x[7 - i];
    let difference = |i: usize| x[i] - x[7 - i];
    let (a, b, c, d) = (sum(0) + sum(3), sum(1) + sum(2), sum(1) - sum(2), sum(0) - sum(3));
    let z = (c + d) * 4433;
    let [x4, x5, x6, x7] = [difference(3), difference(2), difference(1), difference(0)];
    let (z1, z2, z3, z4) = (x4 + x7, x5 + x6, x4 + x6, x5 + x7);
    let z5 = (z3 + z4) * 9633;
    let (z1, z2) = (z1 * -7373, z2 * -20995);
    let (z3, z4) = (z3 * -16069 + z5, z4 * -3196 + z5);
    [
        a + b,
        x7 * 12299 + z1 + z4,
        z + d * 6270,
        x6 * 25172 + z2 + z3,
        a - b,
        x5 * 16819 + z2 + z4,
        z - c * 15137,
        x4 * 2446 + z1 + z3,
    ]
}

/// The quantized coefficients of a block.
fn block(plane: &Samples, [row, column]: [usize; 2], steps: &[u16; 64]) -> [i32; 64] {
    let rounded = |value: i32, bits: u32| (value + (1 << (bits - 1))) >> bits;
    let mut values = [0i32; 64];
    for (line, out) in values.chunks_exact_mut(8).enumerate() {
        let from = &plane.values[(row * 8 + line) * plane.width + column * 8..][..8];
        let found = pass(std::array::from_fn(|i| i32::from(from[i]) - 128));
        for (i, (out, value)) in out.iter_mut().zip(found).enumerate() {
            *out = if i % 4 == 0 { value << 2 } else { rounded(value, 11) };
        }
    }
    for i in 0..8 {
        let found = pass(std::array::from_fn(|k| values[k * 8 + i]));
        for (k, value) in found.into_iter().enumerate() {
            values[k * 8 + i] = rounded(value, if k % 4 == 0 { 2 } else { 15 });
        }
    }
    for (value, &step) in values.iter_mut().zip(steps) {
        // The transform is eight times too large.
        let step = i32::from(step) * 8;
        let size = (value.abs() + step / 2) / step;
        *value = if *value < 0 { -size } else { size };
    }
    values
}

/// The bytes so far, and bits that are no byte yet.
struct Output {
    bytes: Vec<u8>,
    word: u64,
    count: u32,
}

impl Output {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        bytes.iter().try_for_each(|&byte| try_push(&mut self.bytes, byte))
    }

    fn bits(&mut self, (bits, count): (u32, u32)) -> Result<()> {
        self.word = self.word << count | u64::from(bits);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.word >> self.count) as u8;
            try_push(&mut self.bytes, byte)?;
            if byte == 0xff {
                try_push(&mut self.bytes, 0)?;
            }
        }
        Ok(())
    }

    /// Ones up to a whole byte.
    fn end(&mut self) -> Result<()> {
        let missing = (8 - self.count) % 8;
        self.bits(((1 << missing) - 1, missing))
    }

    /// A symbol for zeros and size, and then the number.
    fn number(&mut self, zeros: u32, value: i32, code: &Bits) -> Result<()> {
        let size = 32 - value.unsigned_abs().leading_zeros();
        self.bits(code[(zeros << 4 | size) as usize & 255])?;
        let bits = if value < 0 { value - 1 } else { value };
        self.bits((bits as u32 & ((1 << size) - 1), size))
    }

    fn block(
        &mut self,
        block: &[i32; 64],
        before: &mut i32,
        (first, other): &(Bits, Bits),
    ) -> Result<()> {
        self.number(0, block[0] - *before, first)?;
        *before = block[0];
        let mut zeros = 0;
        for &place in &ZIGZAG[1..] {
            match block[usize::from(place)] {
                0 => zeros += 1,
                value => {
                    while zeros > 15 {
                        self.bits(other[0xf0])?;
                        zeros -= 16;
                    }
                    self.number(zeros, value, other)?;
                    zeros = 0;
                }
            }
        }
        if zeros > 0 { self.bits(other[0]) } else { Ok(()) }
    }
}
