//! Caches of keys and values: one room for each sequence, or pages that sequences take as they grow.

use crate::config::Config;
use corten::core::{bail, ensure};
use corten::{DType, Result, Tensor, build, op};

/// How a [`Cache`] is made.
///
/// ```
/// use corten_lm::CacheOptions;
///
/// let options = CacheOptions { capacity: 512, ..CacheOptions::default() };
/// assert_eq!((options.sequences, options.page_tokens), (1, 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// The dtype of keys and values: float32, float16, bfloat16, or int8 with a scale for each key and value.
    pub dtype: DType,
    /// Tokens that a sequence may have, or with pages all sequences together.
    pub capacity: usize,
    /// Sequences.
    pub sequences: usize,
    /// Tokens of a page; 0 for a cache without pages.
    pub page_tokens: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { dtype: DType::Float16, capacity: 4096, sequences: 1, page_tokens: 0 }
    }
}

/// Keys or values of a layer, and their scales.
struct Rows {
    rows: Tensor,
    scales: Option<Tensor>,
}

impl Rows {
    fn new(shape: [i64; 4], dtype: DType) -> Result<Self> {
        let [slabs, heads, tokens, _] = shape;
        // Zeros come from the system and take no memory before they are written.
        let zeros = |shape: &[i64], dtype| build::zeros(shape).dtype(dtype).call();
        let scales = (dtype == DType::Int8)
            .then(|| zeros(&[slabs, heads, tokens, 1], DType::Float32))
            .transpose()?;
        Ok(Self { rows: zeros(&shape, dtype)?, scales })
    }

    fn narrow(&self, start: i64, count: i64) -> Result<Self> {
        let part = |tensor: &Tensor| op::narrow(tensor, 0, start, count);
        Ok(Self { rows: part(&self.rows)?, scales: self.scales.as_ref().map(part).transpose()? })
    }
}

/// A sequence in a cache.
#[derive(Clone, Default)]
struct Sequence {
    tokens: i64,
    pages: Vec<i64>,
}

/// Keys and values of the tokens that a model has seen.
///
/// ```
/// use corten_lm::{Cache, CacheOptions, LanguageModel};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models/gemma3.gguf");
/// let model = LanguageModel::from_gguf(&corten::io::gguf::Opened::new(path)?)?;
/// let options = CacheOptions { capacity: 64, ..CacheOptions::default() };
/// let mut cache = Cache::new(model.config(), options)?;
/// model.forward(&[1, 2, 3], &mut cache)?;
/// assert_eq!(cache.len(0), 3);
/// cache.truncate(0, 1)?;
/// # Ok::<(), corten::Error>(())
/// ```
pub struct Cache {
    /// Keys and values of each layer.
    layers: Vec<[Rows; 2]>,
    sequences: Vec<Sequence>,
    options: CacheOptions,
    /// Pages that no sequence has.
    free: Vec<i64>,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// `Value` for a dtype that caches do not have, or where there is no room for a token.
    pub fn new(config: &Config, options: CacheOptions) -> Result<Self> {
        let CacheOptions { dtype, capacity, sequences, page_tokens } = options;
        ensure!(
            matches!(dtype, DType::Float32 | DType::Float16 | DType::BFloat16 | DType::Int8),
            Value,
            "a cache is of float32, float16, bfloat16 or int8, not of {dtype}"
        );
        ensure!(capacity > 0 && sequences > 0, Value, "a cache has room for a token of a sequence");
        let (slabs, tokens) = match page_tokens {
            0 => (sequences, capacity),
            _ => (capacity.div_ceil(page_tokens), page_tokens),
        };
        let shape = [slabs as i64, config.kv_heads, tokens as i64, config.head_width];
        let layer = |_| Ok([Rows::new(shape, dtype)?, Rows::new(shape, dtype)?]);
        let layers = (0..config.layers).map(layer).collect::<Result<_>>()?;
        let free = if page_tokens == 0 { Vec::new() } else { (0..slabs as i64).rev().collect() };
        Ok(Self { layers, sequences: vec![Sequence::default(); sequences], options, free })
    }

    /// Tokens of a sequence.
    pub fn len(&self, sequence: usize) -> usize {
        self.sequences.get(sequence).map_or(0, |known| known.tokens as usize)
    }

    /// Whether no sequence has a token.
    pub fn is_empty(&self) -> bool {
        self.sequences.iter().all(|sequence| sequence.tokens == 0)
    }

    /// How many sequences there are.
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// How many tokens a sequence may still get.
    pub fn room(&self, sequence: usize) -> usize {
        let Some(known) = self.sequences.get(sequence) else { return 0 };
        let page = self.options.page_tokens;
        let all = match page {
            0 => self.options.capacity,
            _ => (known.pages.len() + self.free.len()) * page,
        };
        all - known.tokens as usize
    }

    /// Forgets the tokens of a sequence from a number of them on; its pages can be taken by others.
    ///
    /// # Errors
    /// `Index` for a sequence that is not there or has fewer tokens.
    pub fn truncate(&mut self, sequence: usize, tokens: usize) -> Result<()> {
        let Some(known) = self.sequences.get_mut(sequence) else {
            bail!(Index, "the cache has no sequence {sequence}")
        };
        let had = known.tokens;
        ensure!(tokens as i64 <= had, Index, "the sequence has {had} tokens, fewer than {tokens}");
        known.tokens = tokens as i64;
        if self.options.page_tokens > 0 {
            let kept = tokens.div_ceil(self.options.page_tokens);
            self.free.extend(known.pages.drain(kept..));
        }
        Ok(())
    }

    /// Places for `tokens` new tokens of each of some sequences.
    pub(crate) fn slots(&mut self, sequences: &[usize], tokens: i64) -> Result<Slots<'_>> {
        for (place, &sequence) in sequences.iter().enumerate() {
            ensure!(
                sequence < self.sequences.len() && !sequences[..place].contains(&sequence),
                Index,
                "the cache has no sequence {sequence}, or it is named twice"
            );
            let (room, had) = (self.room(sequence), self.len(sequence));
            ensure!(
                tokens as usize <= room,
                Index,
                "{tokens} tokens behind {had} do not fit into the cache, which has room for {room}"
            );
            self.grow(sequence, tokens);
        }
        let past: Vec<i64> = sequences.iter().map(|&i| self.sequences[i].tokens).collect();
        let (first, batch) = (sequences[0], sequences.len());
        let follows = sequences.iter().enumerate().all(|(i, &sequence)| sequence == first + i);
        let table = self.table(sequences)?;
        ensure!(
            table.is_some() || follows,
            Value,
            "sequences of a cache without pages are used one by one, or as they follow each other"
        );
        let part = match table {
            None if batch < self.sequences.len() => Some((first as i64, batch as i64)),
            _ => None,
        };
        Ok(Slots {
            past_tokens: Tensor::from_vec(past.clone(), &[batch as i64])?,
            past,
            batch: batch as i64,
            tokens,
            table,
            part,
            cache: self,
        })
    }

    /// Takes the pages that new tokens need; there are enough.
    fn grow(&mut self, sequence: usize, tokens: i64) {
        if self.options.page_tokens == 0 {
            return;
        }
        let known = &mut self.sequences[sequence];
        let needed = ((known.tokens + tokens) as usize).div_ceil(self.options.page_tokens);
        while known.pages.len() < needed {
            let Some(page) = self.free.pop() else { return };
            known.pages.push(page);
        }
    }

    fn table(&self, sequences: &[usize]) -> Result<Option<Tensor>> {
        if self.options.page_tokens == 0 {
            return Ok(None);
        }
        let pages = |&sequence: &usize| &self.sequences[sequence].pages;
        let longest = sequences.iter().map(|sequence| pages(sequence).len()).max().unwrap_or(0);
        let mut table = Vec::new();
        for sequence in sequences {
            table.extend_from_slice(pages(sequence));
            table.resize(table.len().next_multiple_of(longest.max(1)), 0);
        }
        Tensor::from_vec(table, &[sequences.len() as i64, longest as i64]).map(Some)
    }

    /// Counts new tokens, when all layers have them.
    pub(crate) fn advance(&mut self, sequences: &[usize], tokens: i64) {
        for &sequence in sequences {
            self.sequences[sequence].tokens += tokens;
        }
    }
}

/// Places for new tokens in a cache.
pub(crate) struct Slots<'a> {
    cache: &'a Cache,
    pub(crate) batch: i64,
    /// New tokens of each sequence.
    pub(crate) tokens: i64,
    past: Vec<i64>,
    past_tokens: Tensor,
    table: Option<Tensor>,
    /// The sequences of a cache without pages, where these are not all.
    part: Option<(i64, i64)>,
}

impl Slots<'_> {
    /// The positions of all new tokens.
    pub(crate) fn positions(&self) -> Vec<i64> {
        self.past.iter().flat_map(|&past| past..past + self.tokens).collect()
    }

    fn rows(&self, layer: usize) -> Result<[Rows; 2]> {
        let [keys, values] = &self.cache.layers[layer];
        let part = |rows: &Rows| match self.part {
            Some((start, count)) => rows.narrow(start, count),
            None => Ok(Rows { rows: rows.rows.clone(), scales: rows.scales.clone() }),
        };
        Ok([part(keys)?, part(values)?])
    }

    /// Writes keys and values of shape (batch, heads, tokens, width).
    pub(crate) fn write(&self, layer: usize, keys: &Tensor, values: &Tensor) -> Result<()> {
        let (past, table) = (&self.past_tokens, self.table.as_ref());
        for (to, from) in self.rows(layer)?.iter().zip([keys, values]) {
            match &to.scales {
                None => op::kv_cache_write_(&to.rows, from, past, table)?,
                Some(scales) => {
                    let (rows, own) = op::quantize_rows(from)?;
                    op::kv_cache_write_(scales, &own, past, table)?;
                    op::kv_cache_write_(&to.rows, &rows, past, table)?
                }
            };
        }
        Ok(())
    }

    /// Attention of queries of shape (batch, heads, tokens, width).
    pub(crate) fn attend(
        &self,
        layer: usize,
        query: &Tensor,
        scale: f64,
        window: i64,
        soft_cap: f64,
    ) -> Result<Tensor> {
        let [keys, values] = self.rows(layer)?;
        op::kv_cache_attention(
            query,
            &keys.rows,
            &values.rows,
            &self.past_tokens,
            Some(scale),
            window,
            soft_cap,
            self.table.as_ref(),
            keys.scales.as_ref(),
            values.scales.as_ref(),
        )
    }
}
