//! The coefficients of one scan.

use super::bits::Bits;
use super::frame::{Component, ZIGZAG};
use super::huffman::Huffman;
use corten_core::{Result, bail, ensure};

/// What a scan holds.
pub(super) struct Scan<'a> {
    /// The components, with their codes of first and other coefficients.
    pub(super) members: &'a [(usize, usize, usize)],
    /// The first and the last coefficient.
    pub(super) band: [usize; 2],
    /// The bits that scans before have left out, and that this one leaves out.
    pub(super) high: u32,
    pub(super) low: u32,
    /// Units between restarts.
    pub(super) interval: usize,
    pub(super) progressive: bool,
    pub(super) dc: &'a [Option<Huffman>; 4],
    pub(super) ac: &'a [Option<Huffman>; 4],
}

/// What a block depends on beside its bits.
#[derive(Default)]
struct State {
    /// The first coefficients of the last blocks.
    before: [i32; 4],
    /// Blocks to come without further coefficients.
    run: u32,
}

/// Reads a scan into the coefficients of its components; where its segment ends.
///
/// # Errors
/// `Runtime` for bits that are not what they should be, or not there.
pub(super) fn read_scan(
    scan: &Scan<'_>,
    components: &mut [Component],
    [width, height]: [usize; 2],
    mut bits: Bits<'_>,
) -> Result<usize> {
    check(scan)?;
    let mut state = State::default();
    let alone = scan.members.len() == 1;
    let units = match alone {
        true => components[scan.members[0].0].used,
        false => {
            let most = components.iter().fold([1, 1], |most: [usize; 2], component| {
                [0, 1].map(|i| most[i].max(component.sampling[i]))
            });
            [width.div_ceil(8 * most[0]), height.div_ceil(8 * most[1])]
        }
    };
    for unit in 0..units[0] * units[1] {
        if scan.interval > 0 && unit > 0 && unit % scan.interval == 0 {
            bits.restart((unit / scan.interval - 1) as u8 % 8)?;
            state = State::default();
        }
        let at = [unit % units[0], unit / units[0]];
        for (nr, &member) in scan.members.iter().enumerate() {
            let component = &mut components[member.0];
            let [across, down] = if alone { [1, 1] } else { component.sampling };
            for part in 0..across * down {
                let column = at[0] * across + part % across;
                let row = at[1] * down + part / across;
                let first = (row * component.blocks[0] + column) * 64;
                let Some(block) = component.coefficients[first..].first_chunk_mut::<64>() else {
                    bail!(Runtime, "Corrupt JPEG data");
                };
                read_block(scan, (nr, member), &mut state, &mut bits, block)?;
            }
        }
        bits.check()?;
    }
    Ok(bits.marker())
}

fn check(scan: &Scan<'_>) -> Result<()> {
    let [first, last] = scan.band;
    let fits = match scan.progressive {
        true => {
            let band = if first == 0 { last == 0 } else { scan.members.len() == 1 };
            let bits = scan.high == 0 || scan.high == scan.low + 1;
            band && first <= last && last < 64 && bits && scan.low <= 13
        }
        false => true,
    };
    ensure!(
        fits,
        Runtime,
        "Invalid progressive parameters Ss={first} Se={last} Ah={} Al={}",
        scan.high,
        scan.low
    );
    Ok(())
}

fn table(tables: &[Option<Huffman>; 4], nr: usize) -> Result<&Huffman> {
    match &tables[nr] {
        Some(table) => Ok(table),
        None => bail!(Runtime, "Huffman table 0x{nr:02x} was not defined"),
    }
}

#[inline(always)]
fn read_block(
    scan: &Scan<'_>,
    (nr, (_, dc, ac)): (usize, (usize, usize, usize)),
    state: &mut State,
    bits: &mut Bits<'_>,
    block: &mut [i16; 64],
) -> Result<()> {
    if !scan.progressive {
        block[0] = first_of(table(scan.dc, dc)?, nr, state, bits)? as i16;
        return sequential(table(scan.ac, ac)?, bits, block);
    }
    match (scan.band[0], scan.high) {
        (0, 0) => {
            block[0] = (first_of(table(scan.dc, dc)?, nr, state, bits)? << scan.low) as i16;
            Ok(())
        }
        (0, _) => {
            block[0] |= (bits.take(1) << scan.low) as i16;
            Ok(())
        }
        (_, 0) => progressive(scan, table(scan.ac, ac)?, state, bits, block),
        _ => refine(scan, table(scan.ac, ac)?, state, bits, block),
    }
}

/// The first coefficient.
#[inline(always)]
fn first_of(table: &Huffman, nr: usize, state: &mut State, bits: &mut Bits<'_>) -> Result<i32> {
    let size = u32::from(table.decode(bits)?);
    ensure!(size <= 16, Runtime, "Corrupt JPEG data: bad Huffman code");
    state.before[nr] = state.before[nr].wrapping_add(bits.signed(size));
    Ok(state.before[nr])
}

/// All other coefficients of a block.
#[inline(always)]
fn sequential(table: &Huffman, bits: &mut Bits<'_>, block: &mut [i16; 64]) -> Result<()> {
    let mut place = 1;
    while place < 64 {
        let symbol = table.decode(bits)?;
        let (zeros, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size == 0 {
            if zeros != 15 {
                break;
            }
            place += 16;
            continue;
        }
        place += zeros;
        let value = bits.signed(size);
        match ZIGZAG.get(place) {
            Some(&at) => block[usize::from(at)] = value as i16,
            None => bail!(Runtime, "Corrupt JPEG data: bad Huffman code"),
        }
        place += 1;
    }
    Ok(())
}

/// The upper bits of a band of coefficients.
fn progressive(
    scan: &Scan<'_>,
    table: &Huffman,
    state: &mut State,
    bits: &mut Bits<'_>,
    block: &mut [i16; 64],
) -> Result<()> {
    if state.run > 0 {
        state.run -= 1;
        return Ok(());
    }
    let mut place = scan.band[0];
    while place <= scan.band[1] {
        let symbol = table.decode(bits)?;
        let (zeros, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        match (size, zeros) {
            (0, 15) => place += 16,
            (0, _) => {
                state.run = (1 << zeros) - 1 + bits.take(zeros as u32) as u32;
                break;
            }
            _ => {
                place += zeros;
                let value = bits.signed(size) << scan.low;
                match ZIGZAG.get(place) {
                    Some(&at) => block[usize::from(at)] = value as i16,
                    None => bail!(Runtime, "Corrupt JPEG data: bad Huffman code"),
                }
                place += 1;
            }
        }
    }
    Ok(())
}

/// One more bit of a band of coefficients.
fn refine(
    scan: &Scan<'_>,
    table: &Huffman,
    state: &mut State,
    bits: &mut Bits<'_>,
    block: &mut [i16; 64],
) -> Result<()> {
    let one = 1i16 << scan.low;
    let (mut place, last) = (scan.band[0], scan.band[1]);
    while state.run == 0 && place <= last {
        let symbol = table.decode(bits)?;
        let (mut zeros, size) = (usize::from(symbol >> 4), symbol & 15);
        let value = match size {
            0 if zeros < 15 => {
                state.run = (1 << zeros) + bits.take(zeros as u32) as u32;
                break;
            }
            0 => 0,
            _ if bits.take(1) == 1 => one,
            _ => -one,
        };
        while place <= last {
            let coefficient = &mut block[usize::from(ZIGZAG[place])];
            place += 1;
            if *coefficient != 0 {
                add_bit(coefficient, one, bits);
            } else if zeros > 0 {
                zeros -= 1;
            } else {
                *coefficient = value;
                break;
            }
        }
    }
    if state.run > 0 {
        for place in place..=last {
            let coefficient = &mut block[usize::from(ZIGZAG[place])];
            if *coefficient != 0 {
                add_bit(coefficient, one, bits);
            }
        }
        state.run -= 1;
    }
    Ok(())
}

/// The next bit of a coefficient that is not zero.
#[inline(always)]
fn add_bit(coefficient: &mut i16, one: i16, bits: &mut Bits<'_>) {
    if bits.take(1) == 1 && *coefficient & one == 0 {
        let step = if *coefficient >= 0 { one } else { -one };
        *coefficient = coefficient.wrapping_add(step);
    }
}
