//! PNG files, read by the crate `png` and written by way of `miniz_oxide`.

use super::{Mode, Picture};
use corten_core::{Error, Result, bail, ensure, err, try_collect, try_extend, try_resize, try_vec};
use miniz_oxide::deflate::core::{
    CompressionStrategy, CompressorOxide, TDEFLFlush, TDEFLStatus, compress,
    create_comp_flags_from_zip_params,
};
use png::{BitDepth, ColorType, Decoder, DecodingError, Info, Limits, Transformations};
use std::io::{Cursor, ErrorKind};

/// The signature of the format.
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The largest width and height that libpng reads.
const MOST: u32 = 1_000_000;

/// An image with samples of 8 or of 16 bits.
pub(super) enum Decoded {
    Bytes(Picture<u8>),
    Words(Picture<u16>),
}

/// The image of a file.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub(super) fn decode(data: &[u8], mode: i64) -> Result<Decoded> {
    ensure!(data.len() >= 8, Runtime, "Content is too small for png!");
    ensure!(data.starts_with(SIGNATURE), Runtime, "Content is not png!");
    let limits = Limits { bytes: data.len().saturating_add(1 << 26) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(data), limits);
    decoder.set_transformations(Transformations::IDENTITY);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let info = decoder.read_header_info().map_err(failed)?;
    let (width, height) = (info.width, info.height);
    ensure!(
        width <= MOST && height <= MOST,
        Runtime,
        "decode_png: images of {width} x {height} pixels are too large"
    );
    // A byte of the file stands for no more than 1032 of the image.
    let bytes = info.raw_bytes() as u64;
    ensure!(bytes / 1032 <= data.len() as u64, Runtime, "{TRUNCATED}");
    let mut reader = decoder.read_info().map_err(failed)?;
    let mode = Mode::of(mode, "PNG")?;
    let mut raw = try_vec(0u8, reader.output_buffer_size().unwrap_or(usize::MAX))?;
    reader.next_frame(&mut raw).map_err(failed)?;
    let info = reader.info();
    let exif = info.exif_metadata.as_ref().map(|data| data.to_vec());
    let (width, height) = (width as usize, height as usize);
    if info.bit_depth == BitDepth::Sixteen {
        let words = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let (samples, channels) = converted(try_collect(words)?, info, mode)?;
        return Ok(Decoded::Words(Picture { width, height, channels, samples, exif }));
    }
    let bytes = unpacked(raw, info)?;
    let (samples, channels) = converted(bytes, info, mode)?;
    Ok(Decoded::Bytes(Picture { width, height, channels, samples, exif }))
}

const TRUNCATED: &str = "Out of bound read in decode_png. Probably, the input image is corrupted";

fn failed(error: DecodingError) -> Error {
    match error {
        DecodingError::IoError(inner) if inner.kind() == ErrorKind::UnexpectedEof => {
            err!(Runtime, "{TRUNCATED}")
        }
        other => err!(Runtime, "decode_png: {other}"),
    }
}

/// One byte per sample: grey values over the whole range, places in the palette as they are.
fn unpacked(raw: Vec<u8>, info: &Info<'_>) -> Result<Vec<u8>> {
    let bits = info.bit_depth as usize;
    if bits == 8 {
        return Ok(raw);
    }
    let width = info.width as usize;
    let most = (1u8 << bits) - 1;
    let times = if info.color_type == ColorType::Indexed { 1 } else { 255 / most };
    let mut samples = corten_core::try_with_capacity(width * info.height as usize)?;
    for row in raw.chunks_exact((width * bits).div_ceil(8)) {
        let sample = |column: usize| {
            let shift = 8 - bits - column * bits % 8;
            (row[column * bits / 8] >> shift & most) * times
        };
        samples.extend((0..width).map(sample));
    }
    Ok(samples)
}

/// A sample of 8 or 16 bits.
trait Sample: Copy {
    const MOST: Self;
    fn of(byte: u8) -> Self;
    fn opaque(bits: u32) -> Self;
    /// The brightness of a colour, with the weights and roundings of libpng.
    fn grey(colour: [Self; 3]) -> Self;
}

/// The weighted sum of a colour, 15 bits longer.
fn weighted(colour: [u32; 3]) -> u32 {
    9794 * colour[0] + 19234 * colour[1] + 3740 * colour[2]
}

impl Sample for u8 {
    const MOST: Self = u8::MAX;
    fn of(byte: u8) -> Self {
        byte
    }
    fn opaque(bits: u32) -> Self {
        // As in the original, whose filler has the bits that the file has.
        u8::MAX >> 8u32.saturating_sub(bits)
    }
    fn grey(colour: [Self; 3]) -> Self {
        (weighted(colour.map(u32::from)) >> 15) as u8
    }
}

impl Sample for u16 {
    const MOST: Self = u16::MAX;
    fn of(byte: u8) -> Self {
        u16::from(byte)
    }
    fn opaque(_bits: u32) -> Self {
        u16::MAX
    }
    fn grey(colour: [Self; 3]) -> Self {
        ((weighted(colour.map(u32::from)) + (1 << 14)) >> 15) as u16
    }
}

/// The samples in the channels that are asked for, and their number.
fn converted<T: Sample>(samples: Vec<T>, info: &Info<'_>, mode: Mode) -> Result<(Vec<T>, usize)>
where
    usize: TryFrom<T>,
{
    let channels = info.color_type.samples();
    let opaque = T::opaque(info.bit_depth as u32);
    let same = matches!(
        (mode, info.color_type),
        (Mode::Unchanged, _)
            | (Mode::Grey, ColorType::Grayscale)
            | (Mode::GreyAlpha, ColorType::GrayscaleAlpha)
            | (Mode::Rgb, ColorType::Rgb)
            | (Mode::Rgba, ColorType::Rgba)
    );
    if same {
        return Ok((samples, channels));
    }
    let pixels = samples.chunks_exact(channels);
    match info.color_type {
        ColorType::Indexed => {
            let palette = info.palette.as_deref().unwrap_or_default();
            let alpha = info.trns.as_deref().unwrap_or_default();
            let colour = |pixel: &[T]| {
                let place = usize::try_from(pixel[0]).unwrap_or(usize::MAX);
                let at = |i: usize| palette.get(place * 3 + i).copied().unwrap_or(0);
                let alpha = alpha.get(place).map_or(T::MOST, |&alpha| T::of(alpha));
                [T::of(at(0)), T::of(at(1)), T::of(at(2)), alpha]
            };
            collected(pixels.map(colour), mode)
        }
        ColorType::Grayscale => collected(pixels.map(|p| [p[0], p[0], p[0], opaque]), mode),
        ColorType::GrayscaleAlpha => collected(pixels.map(|p| [p[0], p[0], p[0], p[1]]), mode),
        ColorType::Rgb => collected(pixels.map(|p| [p[0], p[1], p[2], opaque]), mode),
        ColorType::Rgba => collected(pixels.map(|p| [p[0], p[1], p[2], p[3]]), mode),
    }
}

fn collected<T: Sample>(
    pixels: impl Iterator<Item = [T; 4]>,
    mode: Mode,
) -> Result<(Vec<T>, usize)> {
    let mut out = Vec::new();
    let grey = |[r, g, b, _]: [T; 4]| T::grey([r, g, b]);
    let channels = match mode {
        Mode::Grey => {
            try_extend(&mut out, pixels.map(grey))?;
            1
        }
        Mode::GreyAlpha => {
            try_extend(&mut out, pixels.flat_map(|pixel| [grey(pixel), pixel[3]]))?;
            2
        }
        Mode::Rgb => {
            try_extend(&mut out, pixels.flat_map(|[r, g, b, _]| [r, g, b]))?;
            3
        }
        Mode::Rgba | Mode::Unchanged => {
            try_extend(&mut out, pixels.flatten())?;
            4
        }
    };
    Ok((out, channels))
}

/// The bytes of a file of an image whose pixels lie side by side, channels last.
///
/// # Errors
/// `Runtime` for sizes that no file has.
pub(super) fn encode(
    pixels: &[u8],
    [height, width, channels]: [usize; 3],
    level: u8,
) -> Result<Vec<u8>> {
    ensure!(
        (1..=MOST as usize).contains(&height) && (1..=MOST as usize).contains(&width),
        Runtime,
        "encode_png: no file has an image of {width} x {height} pixels"
    );
    let mut header = [0; 13];
    header[..4].copy_from_slice(&(width as u32).to_be_bytes());
    header[4..8].copy_from_slice(&(height as u32).to_be_bytes());
    header[8..10].copy_from_slice(&[8, if channels == 3 { 2 } else { 0 }]);
    let mut out = Vec::new();
    try_extend(&mut out, SIGNATURE.iter().copied())?;
    chunk(&mut out, b"IHDR", &header)?;
    let lines = filtered(pixels, [height, width * channels], channels)?;
    let mut stream = Vec::new();
    try_extend(&mut stream, stream_header(lines.len(), level))?;
    try_extend(&mut stream, deflated(&lines, level)?)?;
    try_extend(&mut stream, adler(&lines).to_be_bytes())?;
    for part in stream.chunks(8192) {
        chunk(&mut out, b"IDAT", part)?;
    }
    chunk(&mut out, b"IEND", &[])?;
    Ok(out)
}

/// The compressed data, by the codes of the standard where they are shorter: a table of codes is longer
/// than a small image.
fn deflated(data: &[u8], level: u8) -> Result<Vec<u8>> {
    let own = compressed(data, level, CompressionStrategy::Default)?;
    if level == 0 || data.len() > 1 << 12 {
        return Ok(own);
    }
    let fixed = compressed(data, level, CompressionStrategy::Fixed)?;
    Ok(if fixed.len() < own.len() { fixed } else { own })
}

fn compressed(data: &[u8], level: u8, strategy: CompressionStrategy) -> Result<Vec<u8>> {
    let flags = create_comp_flags_from_zip_params(i32::from(level), -15, strategy as i32);
    let mut compressor = CompressorOxide::new(flags);
    let (mut out, mut read, mut written) = (Vec::new(), 0, 0);
    loop {
        try_resize(&mut out, written + data.len() / 4 + 256, 0u8)?;
        let room = &mut out[written..];
        let (status, taken, given) =
            compress(&mut compressor, &data[read..], room, TDEFLFlush::Finish);
        (read, written) = (read + taken, written + given);
        match status {
            TDEFLStatus::Okay => {}
            TDEFLStatus::Done => {
                out.truncate(written);
                return Ok(out);
            }
            other => bail!(Runtime, "encode_png: the pixels cannot be compressed: {other:?}"),
        }
    }
}

/// The first bytes of a stream: a window no larger than the data, as libpng has it, and the level.
fn stream_header(length: usize, level: u8) -> [u8; 2] {
    let mut window = 7u8;
    while window > 0 && length <= 128 << window {
        window -= 1;
    }
    let class = match level {
        0 | 1 => 0u8,
        2..=5 => 1,
        6 => 2,
        _ => 3,
    };
    let (first, second) = (window << 4 | 8, class << 6);
    let rest = (u16::from(first) << 8 | u16::from(second)) % 31;
    [first, second + (31 - rest) as u8 % 31]
}

/// The checksum of a stream.
fn adler(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    // The sums of so many bytes have no more than 32 bits.
    for part in data.chunks(5552) {
        for &byte in part {
            a += u32::from(byte);
            b += a;
        }
        (a, b) = (a % 65521, b % 65521);
    }
    b << 16 | a
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) -> Result<()> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(name);
    sum.update(data);
    try_extend(out, (data.len() as u32).to_be_bytes())?;
    try_extend(out, name.iter().chain(data).copied())?;
    try_extend(out, sum.finalize().to_be_bytes())
}

/// The rows, each by the filter that leaves the smallest numbers, with the filter's own before it.
fn filtered(pixels: &[u8], [height, width]: [usize; 2], step: usize) -> Result<Vec<u8>> {
    let mut lines = try_vec(0u8, height * (width + 1))?;
    let (mut above, mut trial) = (try_vec(0u8, width)?, try_vec(0u8, width)?);
    let rows = pixels.chunks_exact(width).zip(lines.chunks_exact_mut(width + 1));
    for (row, line) in rows {
        let mut least = u64::MAX;
        for filter in 0..5u8 {
            for (i, out) in trial.iter_mut().enumerate() {
                let left = if i >= step { row[i - step] } else { 0 };
                let corner = if i >= step { above[i - step] } else { 0 };
                *out = row[i].wrapping_sub(predicted(filter, [left, above[i], corner]));
            }
            let size = |&byte: &u8| u64::from((byte as i8).unsigned_abs());
            let sum = trial.iter().map(size).sum::<u64>();
            if sum < least {
                least = sum;
                line[0] = filter;
                line[1..].copy_from_slice(&trial);
            }
        }
        above.copy_from_slice(row);
    }
    Ok(lines)
}

/// What a filter takes a sample for, by those left of it, above it and in the corner between.
#[inline(always)]
fn predicted(filter: u8, [left, above, corner]: [u8; 3]) -> u8 {
    let (a, b, c) = (i32::from(left), i32::from(above), i32::from(corner));
    match filter {
        0 => 0,
        1 => left,
        2 => above,
        3 => ((a + b) / 2) as u8,
        _ => {
            let [pa, pb, pc] = [a, b, c].map(|value| (a + b - c - value).abs());
            if pa <= pb && pa <= pc {
                left
            } else if pb <= pc {
                above
            } else {
                corner
            }
        }
    }
}
