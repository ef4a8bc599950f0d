//! Changes of files at random, from a seed.

/// Numbers from a seed: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 33) % count.max(1) as u64) as usize
    }

    fn choose<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    /// A range within a length, short more often than long.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = 1 << self.below(10);
        start..(start + self.below(longest + 1)).min(length)
    }
}

/// Numbers at which readers go wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// A file of the corpus with some changes.
pub(crate) fn bytes(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.choose(corpus).clone();
    for _ in 0..1 + random.below(4) {
        change(random, &mut bytes, corpus);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = random.below(bytes.len());
    match random.below(9) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
        2 => {
            // A number in place of another.
            let (number, width) = (*random.choose(&NUMBERS), 1 << random.below(4));
            let mut number =
                number.wrapping_add(random.below(3) as u64).wrapping_sub(1).to_le_bytes();
            if random.below(4) == 0 {
                number[..width].reverse();
            }
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        3 => drop(bytes.drain(random.range(bytes.len()))),
        4 => {
            let copied = bytes[random.range(bytes.len())].to_vec();
            drop(bytes.splice(at..at, copied));
        }
        5 => {
            let other = random.choose(corpus);
            let copied = other[random.range(other.len())].to_vec();
            let end = (at + copied.len() * random.below(2)).min(bytes.len());
            drop(bytes.splice(at..end, copied));
        }
        6 => bytes.truncate(at),
        7 => {
            // A digit in a header that is text.
            let digits: Vec<usize> =
                (0..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
            if !digits.is_empty() {
                bytes[*random.choose(&digits)] = b'0' + random.below(10) as u8;
            }
        }
        _ => {
            let inserted: Vec<u8> = (0..random.below(9)).map(|_| random.next() as u8).collect();
            drop(bytes.splice(at..at, inserted));
        }
    }
}

/// Parts of pickles, with arguments that are likely to mean something.
const PARTS: [&[u8]; 48] = [
    b"N",
    b"\x88",
    b"\x89",
    b"(",
    b"t",
    b"l",
    b"d",
    b"]",
    b"}",
    b")",
    b"e",
    b"u",
    b"a",
    b"s",
    b"b",
    b"R",
    b"Q",
    b"0",
    b"1",
    b"2",
    b"o",
    b"\x81",
    b"\x85",
    b"\x86",
    b"\x87",
    b"\x8f",
    b"\x90",
    b"\x91",
    b"\x92",
    b"\x93",
    b"\x94",
    b".",
    b"K\x00",
    b"K\x03",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"G\x7f\xf0\x00\x00\x00\x00\x00\x00",
    b"X\x07\x00\x00\x00storage",
    b"X\x01\x00\x00\x000",
    b"X\x03\x00\x00\x00cpu",
    b"X\x04\x00\x00\x00meta",
    b"ctorch\nFloatStorage\n",
    b"ctorch\nBoolStorage\n",
    b"ctorch\nSize\n",
    b"ccollections\nOrderedDict\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n",
    b"c_codecs\nencode\n",
];

/// A pickle of the corpus with some changes that know opcodes.
pub(crate) fn pickle(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.choose(corpus).clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 | 1 => drop(bytes.splice(at..at, random.choose(&PARTS).iter().copied())),
            2 => {
                // An object that the memo has.
                let name = random.below(40) as u8;
                let opcode = *random.choose(b"hq");
                drop(bytes.splice(at..at, [opcode, name]));
            }
            3 => {
                let end = (at + 1).min(bytes.len());
                drop(bytes.splice(at..end, random.choose(&PARTS).iter().copied()));
            }
            _ => change(random, &mut bytes, corpus),
        }
    }
    bytes
}
