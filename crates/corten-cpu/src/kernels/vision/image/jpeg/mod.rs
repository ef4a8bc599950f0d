//! JPEG files, with the numbers of libjpeg: its cosine transforms in whole numbers, its smooth
//! enlargement of colours and its rounding of these.

mod bits;
mod color;
mod encode;
mod frame;
mod huffman;
mod idct;
mod planes;
mod scan;

pub(super) use encode::encode;

use super::{Mode, Picture};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use corten_core::{Result, bail, try_collect, try_vec};
use planes::Plane;

/// The image of a file, and its Exif data.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub(super) fn decode(data: &[u8], mode: Mode) -> Result<Picture> {
    let frame = frame::read(data)?;
    let (width, height) = (frame.width, frame.height);
    let Some(channels) = color::channels(frame.coding, frame.components.len(), mode) else {
        bail!(Runtime, "The provided mode is not supported for JPEG files");
    };
    let needed = if color::is_first_alone(frame.coding, mode) { 1 } else { frame.components.len() };
    let planes = frame.components[..needed].iter().map(|component| Plane::of(&frame, component));
    let planes = try_collect(planes)?.into_iter().collect::<Result<Vec<_>>>()?;
    let mut samples = try_vec(0u8, width * height * channels)?;
    for_each_chunk(&mut samples, width * channels, grain_of(width * 8), |row, out| {
        let mut rows: [&[u8]; 4] = [&[]; 4];
        for (row_of, plane) in rows.iter_mut().zip(&planes) {
            *row_of = &plane.samples[row * plane.width..][..width];
        }
        color::convert(frame.coding, mode, &rows[..planes.len()], out);
        Ok(())
    })?;
    Ok(Picture { width, height, channels, samples, exif: frame.exif })
}
