//! WebP files, by the crate `image-webp`.

use super::{Mode, Picture};
use corten_core::{Error, Result, ensure, err, try_vec};
use image_webp::WebPDecoder;
use std::io::Cursor;

/// The image of a file.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub(super) fn decode(data: &[u8], mode: i64) -> Result<Picture> {
    let mut decoder = WebPDecoder::new(Cursor::new(data)).map_err(failed)?;
    ensure!(!decoder.is_animated(), Runtime, "Animated webp files are not supported.");
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    let alpha = decoder.has_alpha();
    // The decoder takes about as much again.
    let mut samples = try_vec(0u8, width * height * if alpha { 4 } else { 3 })?;
    decoder.read_image(&mut samples).map_err(failed)?;
    let wanted = match Mode::of(mode, "WEBP") {
        Ok(Mode::Rgb) => 3,
        Ok(Mode::Rgba) => 4,
        _ if alpha => 4,
        _ => 3,
    };
    let samples = match (alpha, wanted) {
        (true, 3) => {
            let mut out = try_vec(0u8, width * height * 3)?;
            let pixels = out.chunks_exact_mut(3).zip(samples.chunks_exact(4));
            pixels.for_each(|(out, pixel)| out.copy_from_slice(&pixel[..3]));
            out
        }
        (false, 4) => {
            let mut out = try_vec(255u8, width * height * 4)?;
            let pixels = out.chunks_exact_mut(4).zip(samples.chunks_exact(3));
            pixels.for_each(|(out, pixel)| out[..3].copy_from_slice(pixel));
            out
        }
        _ => samples,
    };
    Ok(Picture { width, height, channels: wanted, samples, exif: None })
}

fn failed(error: image_webp::DecodingError) -> Error {
    err!(Runtime, "WebPDecodeRGB[A] failed: {error}")
}
