//! What is timed: sizes, and the numbers that all libraries begin with.

/// What is timed.
#[derive(Clone, Copy, PartialEq)]
pub enum Row {
    Mlp,
    Cnn,
    Lstm,
    Gpt,
    MiniLm { batch: usize },
}

pub const ROWS: [Row; 6] =
    [Row::Mlp, Row::Cnn, Row::Lstm, Row::Gpt, Row::MiniLm { batch: 1 }, Row::MiniLm { batch: 8 }];

impl Row {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mlp => "mlp",
            Self::Cnn => "cnn",
            Self::Lstm => "lstm",
            Self::Gpt => "gpt",
            Self::MiniLm { batch: 1 } => "minilm-1",
            Self::MiniLm { .. } => "minilm-8",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Mlp => "MLP 784-512-512-10, batch 128, step of SGD",
            Self::Cnn => "CNN of two convolutions, batch 64, step of AdamW",
            Self::Lstm => "LSTM 128 to 256, 64 × 16, step of AdamW",
            Self::Gpt => "GPT 4 layers of 128, 8 × 64, step of AdamW",
            Self::MiniLm { batch: 1 } => "MiniLM, 1 sentence of 64 tokens",
            Self::MiniLm { .. } => "MiniLM, 8 sentences of 64 tokens",
        }
    }
}

/// One step; its loss, or a number of what was inferred.
pub type Step = Box<dyn FnMut() -> crate::Result<f32>>;

pub const MLP: [usize; 4] = [784, 512, 512, 10];
pub const MLP_BATCH: usize = 128;
pub const MLP_RATE: f64 = 0.1;

/// The network of candle's and burn's MNIST examples: windows of 5, channels, width of the hidden layer.
pub mod cnn {
    pub const BATCH: usize = 64;
    pub const SIDE: usize = 28;
    pub const WINDOW: usize = 5;
    pub const CHANNELS: [usize; 3] = [1, 32, 64];
    pub const FLAT: usize = 64 * 4 * 4;
    pub const HIDDEN: usize = 512;
}

pub mod lstm {
    pub const INPUT: usize = 128;
    pub const HIDDEN: usize = 256;
    pub const STEPS: usize = 64;
    pub const BATCH: usize = 16;
}

pub mod gpt {
    pub const LETTERS: usize = 65;
    pub const WIDTH: usize = 128;
    pub const HEADS: usize = 4;
    pub const LAYERS: usize = 4;
    pub const CONTEXT: usize = 64;
    pub const BATCH: usize = 8;
}

pub mod minilm {
    pub const WORDS: usize = 30522;
    pub const PLACES: usize = 512;
    pub const WIDTH: usize = 384;
    pub const HEADS: usize = 12;
    pub const LAYERS: usize = 6;
    pub const TOKENS: usize = 64;
    pub const EPS: f64 = 1e-12;
}

pub const CLASSES: usize = 10;
/// AdamW: learning rate, decay, epsilon.
pub const ADAMW: (f64, f64, f64) = (1e-3, 0.01, 1e-8);

/// Numbers that look random and are the same everywhere (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From -bound to bound.
    pub fn floats(&mut self, count: usize, bound: f32) -> Vec<f32> {
        let unit = 1.0 / (1u64 << 24) as f32;
        (0..count).map(|_| bound * (2.0 * (self.next() >> 40) as f32 * unit - 1.0)).collect()
    }

    pub fn below(&mut self, count: usize, end: usize) -> Vec<i64> {
        (0..count).map(|_| (self.next() % end as u64) as i64).collect()
    }

    /// Weight (out, in) and bias of a layer whose outputs sum `fan_in` terms.
    pub fn layer(&mut self, weight: usize, bias: usize, fan_in: usize) -> (Vec<f32>, Vec<f32>) {
        let bound = 1.0 / (fan_in as f32).sqrt();
        (self.floats(weight, bound), self.floats(bias, bound))
    }
}
