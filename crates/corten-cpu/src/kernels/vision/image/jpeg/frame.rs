//! The segments of a JPEG file, and the coefficients of its scans.

use super::bits::Bits;
use super::huffman::Huffman;
use super::scan::{Scan, read_scan};
use corten_core::{Result, bail, ensure, try_vec};

/// The order in which the coefficients of a block are in the file.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// One component of an image.
pub(super) struct Component {
    id: u8,
    /// Samples per unit of the image, across and down.
    pub(super) sampling: [usize; 2],
    table: usize,
    /// Samples, across and down.
    pub(super) size: [usize; 2],
    /// Blocks that hold samples.
    pub(super) used: [usize; 2],
    /// Blocks in whole units.
    pub(super) blocks: [usize; 2],
    /// The coefficients, block by block.
    pub(super) coefficients: Vec<i16>,
    /// What they are to be multiplied by: the table at the component's first scan.
    pub(super) steps: Option<[u16; 64]>,
}

/// How colours are coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    Grey,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
    Unknown,
}

/// An image before its samples are computed.
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: Vec<Component>,
    pub(super) coding: Coding,
    /// The bytes of the Exif segment, behind its name.
    pub(super) exif: Option<Vec<u8>>,
}

/// What segments have said so far.
#[derive(Default)]
struct Reader {
    steps: [Option<[u16; 64]>; 4],
    dc: [Option<Huffman>; 4],
    ac: [Option<Huffman>; 4],
    interval: usize,
    jfif: bool,
    adobe: Option<u8>,
    exif: Option<Vec<u8>>,
    progressive: bool,
    width: usize,
    height: usize,
    components: Vec<Component>,
    scans: usize,
}

/// Reads all scans of an image.
///
/// # Errors
/// `Runtime` for what is no such image, or not all of it.
pub(super) fn read(data: &[u8]) -> Result<Frame> {
    let (first, second) = (data.first().copied(), data.get(1).copied());
    ensure!(
        (first, second) == (Some(0xff), Some(0xd8)),
        Runtime,
        "Not a JPEG file: starts with 0x{:02x} 0x{:02x}",
        first.unwrap_or(0),
        second.unwrap_or(0)
    );
    let mut reader = Reader::default();
    let mut at = 2;
    loop {
        at = Bits::new(data, at).marker();
        let Some(&[_, code]) = data.get(at..at + 2) else {
            bail!(Runtime, "Image is incomplete or truncated");
        };
        at += 2;
        match code {
            0xd9 => return reader.finish(),
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let size = match data.get(at..at + 2) {
            Some(&[high, low]) => usize::from(high) << 8 | usize::from(low),
            _ => bail!(Runtime, "Image is incomplete or truncated"),
        };
        ensure!(size >= 2, Runtime, "Bogus marker length");
        let Some(segment) = data.get(at + 2..at + size) else {
            bail!(Runtime, "Image is incomplete or truncated");
        };
        at += size;
        if code == 0xda {
            at = reader.scan(segment, data, at)?;
        } else {
            reader.segment(code, segment, data.len())?;
        }
    }
}

impl Reader {
    fn segment(&mut self, code: u8, segment: &[u8], length: usize) -> Result<()> {
        match code {
            0xc4 => self.codes(segment),
            0xdb => self.tables(segment),
            0xc0..=0xc2 => {
                self.progressive = code == 0xc2;
                self.frame(segment, length)
            }
            0xc3 | 0xc5..=0xcf => bail!(Runtime, "Unsupported JPEG process: SOF type 0x{code:02x}"),
            0xdd => {
                ensure!(segment.len() == 2, Runtime, "Bogus marker length");
                self.interval = usize::from(segment[0]) << 8 | usize::from(segment[1]);
                Ok(())
            }
            0xe0 if segment.starts_with(b"JFIF\0") => {
                self.jfif = true;
                Ok(())
            }
            0xe1 if segment.starts_with(b"Exif\0\0") && self.exif.is_none() => {
                // Bounded: a segment of the file.
                self.exif = Some(segment[6..].to_vec());
                Ok(())
            }
            0xee if segment.starts_with(b"Adobe") && segment.len() >= 12 => {
                self.adobe = Some(segment[11]);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Quantization tables.
    fn tables(&mut self, mut rest: &[u8]) -> Result<()> {
        while let Some((&head, values)) = rest.split_first() {
            let (wide, nr) = (usize::from(head >> 4), usize::from(head & 15));
            ensure!(wide < 2 && nr < 4, Runtime, "Bogus DQT index {nr}");
            let size = 64 * (wide + 1);
            ensure!(values.len() >= size, Runtime, "Bogus marker length");
            let mut table = [0u16; 64];
            for (i, place) in ZIGZAG.iter().enumerate() {
                table[usize::from(*place)] = match wide {
                    0 => u16::from(values[i]),
                    _ => u16::from(values[2 * i]) << 8 | u16::from(values[2 * i + 1]),
                };
            }
            self.steps[nr] = Some(table);
            rest = &values[size..];
        }
        Ok(())
    }

    /// Huffman codes.
    fn codes(&mut self, mut rest: &[u8]) -> Result<()> {
        while let Some((&head, values)) = rest.split_first() {
            let (class, nr) = (head >> 4, usize::from(head & 15));
            ensure!(class < 2 && nr < 4, Runtime, "Bogus DHT index {nr}");
            let Some((counts, symbols)) = values.split_first_chunk::<16>() else {
                bail!(Runtime, "Bogus marker length");
            };
            let count = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
            ensure!(
                count <= 256 && count <= symbols.len(),
                Runtime,
                "Bogus Huffman table definition"
            );
            let table = Some(Huffman::new(counts, &symbols[..count])?);
            if class == 0 {
                self.dc[nr] = table;
            } else {
                self.ac[nr] = table;
            }
            rest = &symbols[count..];
        }
        Ok(())
    }

    /// The sizes of the image and its components.
    fn frame(&mut self, segment: &[u8], length: usize) -> Result<()> {
        ensure!(
            self.components.is_empty(),
            Runtime,
            "Invalid JPEG file structure: two SOF markers"
        );
        let Some((head, parts)) = segment.split_first_chunk::<6>() else {
            bail!(Runtime, "Bogus marker length");
        };
        ensure!(head[0] == 8, Runtime, "Unsupported JPEG data precision {}", head[0]);
        let two = |i: usize| usize::from(head[i]) << 8 | usize::from(head[i + 1]);
        (self.height, self.width) = (two(1), two(3));
        ensure!(self.height > 0 && self.width > 0, Runtime, "Empty JPEG image (DNL not supported)");
        let count = usize::from(head[5]);
        ensure!(
            (1..=4).contains(&count) && parts.len() == 3 * count,
            Runtime,
            "Too many color components: {count}, max 4"
        );
        let sampling = |part: &[u8]| [usize::from(part[1] >> 4), usize::from(part[1] & 15)];
        let most = parts.chunks_exact(3).fold([1, 1], |most: [usize; 2], part| {
            let own = sampling(part);
            [most[0].max(own[0]), most[1].max(own[1])]
        });
        for part in parts.chunks_exact(3) {
            let own = sampling(part);
            ensure!(
                own.iter().all(|&n| (1..=4).contains(&n)) && part[2] < 4,
                Runtime,
                "Bogus sampling factors"
            );
            let component = self.component(part[0], own, most, usize::from(part[2]), length)?;
            // Bounded: at most four.
            self.components.push(component);
        }
        Ok(())
    }

    fn component(
        &self,
        id: u8,
        sampling: [usize; 2],
        most: [usize; 2],
        table: usize,
        length: usize,
    ) -> Result<Component> {
        let image = [self.width, self.height];
        let size = [0, 1].map(|i| (image[i] * sampling[i]).div_ceil(most[i]));
        let used = size.map(|size| size.div_ceil(8));
        let blocks = [0, 1].map(|i| image[i].div_ceil(8 * most[i]) * sampling[i]);
        // Every block takes a bit at least, so that a small file has no large image.
        ensure!(used[0] * used[1] / 8 <= length, Runtime, "Image is incomplete or truncated");
        let coefficients = try_vec(0i16, blocks[0] * blocks[1] * 64)?;
        Ok(Component { id, sampling, table, size, used, blocks, coefficients, steps: None })
    }

    /// Reads one scan; where the next marker is.
    fn scan(&mut self, segment: &[u8], data: &[u8], at: usize) -> Result<usize> {
        ensure!(
            !self.components.is_empty(),
            Runtime,
            "Invalid JPEG file structure: SOS before SOF"
        );
        let count = usize::from(segment.first().copied().unwrap_or(0));
        ensure!(
            (1..=self.components.len()).contains(&count) && segment.len() == 2 * count + 4,
            Runtime,
            "Invalid component list of a scan"
        );
        let (parts, rest) = segment[1..].split_at(2 * count);
        let mut members = [(0, 0, 0); 4];
        for (member, part) in members.iter_mut().zip(parts.chunks_exact(2)) {
            let place = self.components.iter().position(|component| component.id == part[0]);
            let Some(place) = place else { bail!(Runtime, "Invalid component ID {}", part[0]) };
            let (dc, ac) = (usize::from(part[1] >> 4), usize::from(part[1] & 15));
            ensure!(dc < 4 && ac < 4, Runtime, "Bogus Huffman table of a scan");
            *member = (place, dc, ac);
            let component = &mut self.components[place];
            if component.steps.is_none() {
                component.steps = self.steps[component.table];
            }
        }
        let scan = Scan {
            members: &members[..count],
            band: [rest[0], rest[1]].map(usize::from),
            high: u32::from(rest[2] >> 4),
            low: u32::from(rest[2] & 15),
            interval: self.interval,
            progressive: self.progressive,
            dc: &self.dc,
            ac: &self.ac,
        };
        self.scans += 1;
        read_scan(&scan, &mut self.components, [self.width, self.height], Bits::new(data, at))
    }

    fn finish(self) -> Result<Frame> {
        ensure!(self.scans > 0, Runtime, "Invalid JPEG file structure: missing SOS marker");
        let coding = self.coding();
        let Self { width, height, components, exif, .. } = self;
        Ok(Frame { width, height, components, coding, exif })
    }

    /// How colours are coded, as far as the file says.
    fn coding(&self) -> Coding {
        // Bounded: at most four.
        let ids: Vec<u8> = self.components.iter().map(|component| component.id).collect();
        match (ids.len(), self.adobe) {
            (1, _) => Coding::Grey,
            (3, _) if self.jfif => Coding::YCbCr,
            (3, Some(0)) => Coding::Rgb,
            (3, None) if ids == *b"RGB" => Coding::Rgb,
            (3, _) => Coding::YCbCr,
            (4, None | Some(0)) => Coding::Cmyk,
            (4, _) => Coding::Ycck,
            _ => Coding::Unknown,
        }
    }
}
