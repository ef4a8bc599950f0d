//! How an image is to be turned, by the Exif data of its file.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// The tag of the orientation.
const ORIENTATION: u16 = 0x112;

/// The orientation that Exif data names; 1 where it names none.
pub(super) fn orientation(data: &[u8]) -> u16 {
    find(data).unwrap_or(1)
}

fn find(data: &[u8]) -> Option<u16> {
    let big = match data.get(..2)? {
        b"MM" => true,
        b"II" => false,
        _ => return None,
    };
    let two = |at: usize| {
        let bytes = [*data.get(at)?, *data.get(at + 1)?];
        Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let four = |at: usize| {
        let (first, second) = (u32::from(two(at)?), u32::from(two(at + 2)?));
        Some(if big { first << 16 | second } else { second << 16 | first })
    };
    if two(2)? != 42 {
        return None;
    }
    let list = four(4)? as usize;
    let entry = |nr: u16| list + 2 + usize::from(nr) * 12;
    let found = (0..two(list)?).map(entry).find(|&at| two(at) == Some(ORIENTATION))?;
    two(found + 8)
}

/// The image of shape `[channels, height, width]` as it is to be seen.
pub(super) fn turned(image: &Tensor, orientation: u16) -> Result<Tensor> {
    let swapped = || op::transpose_int(image, 1, 2);
    match orientation {
        2 => op::flip(image, &[2]),
        3 => op::flip(image, &[1, 2]),
        4 => op::flip(image, &[1]),
        5 => swapped(),
        6 => op::flip(&swapped()?, &[2]),
        7 => op::flip(&swapped()?, &[1, 2]),
        8 => op::flip(&swapped()?, &[1]),
        _ => Ok(image.clone()),
    }
}
