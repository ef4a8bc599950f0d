//! Files of token numbers, mapped into memory.

use crate::dataset::{Dataset, check_index};
use crate::sampler::integers;
use corten_core::{DType, Generator, Result, Storage, default_cpu_generator, ensure, err};
use corten_ops::{Tensor, op};
use std::path::Path;

/// A text as numbers of its tokens, little-endian integers one after another in a file, as language
/// models are trained on. The file is mapped: only what is read comes into memory.
///
/// ```
/// use corten::data::TokenFile;
/// use corten::prelude::*;
///
/// let path = std::env::temp_dir().join(format!("corten-doc-{}.bin", std::process::id()));
/// let bytes: Vec<u8> = (0..100u16).flat_map(u16::to_le_bytes).collect();
/// std::fs::write(&path, bytes).unwrap();
/// let tokens = TokenFile::open(&path, DType::UInt16)?;
/// let (x, y) = tokens.random_batch(4, 8, None)?;
/// assert_eq!(x.sizes().as_slice(), [4, 8]);
/// // What follows is what is to be predicted.
/// assert_eq!((&x + 1.0)?.to_vec::<i64>()?, y.to_vec::<i64>()?);
/// let loader = DataLoader::new(tokens.blocks(8)?, 2);
/// assert_eq!(loader.len(), Some(6));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct TokenFile {
    tokens: Tensor,
}

impl TokenFile {
    /// The tokens of a file, of an integer dtype such as `UInt16` or `UInt32`.
    ///
    /// # Errors
    /// `Runtime` where the file cannot be read; `Value` where its length is no multiple of a
    /// token's, and for dtypes that are no integers.
    pub fn open(path: impl AsRef<Path>, dtype: DType) -> Result<Self> {
        let path = path.as_ref();
        check_dtype(dtype)?;
        let told = |error: std::io::Error| err!(Runtime, "{}: {error}", path.display());
        let nbytes = std::fs::metadata(path).map_err(told)?.len() as usize;
        let width = dtype.itemsize();
        ensure!(
            nbytes.is_multiple_of(width),
            Value,
            "{}: {nbytes} bytes are no whole number of tokens of {width} bytes",
            path.display()
        );
        if nbytes == 0 {
            let tokens = op::empty_memory_format(&[0], Some(dtype), None, None, None, None)?;
            return Ok(Self { tokens });
        }
        let count = (nbytes / width) as i64;
        Ok(Self {
            tokens: Tensor::from_storage(Storage::of_file(path)?, dtype, &[count], &[1], 0)?,
        })
    }

    /// The tokens of a one-dimensional tensor of integers.
    ///
    /// # Errors
    /// `Value` for other tensors.
    pub fn from_tensor(tokens: Tensor) -> Result<Self> {
        check_dtype(tokens.dtype())?;
        ensure!(
            tokens.dim() == 1,
            Value,
            "tokens must be one-dimensional, but got shape {:?}",
            tokens.sizes().as_slice()
        );
        Ok(Self { tokens })
    }

    /// The tokens, in the dtype of the file.
    pub fn tensor(&self) -> &Tensor {
        &self.tokens
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.numel() as usize
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blocks of `size` tokens, one after another, each with the tokens that follow.
    ///
    /// # Errors
    /// `Value` for size 0.
    pub fn blocks(&self, size: usize) -> Result<TokenBlocks> {
        ensure!(size > 0, Value, "the size of a block must be positive, but got 0");
        Ok(TokenBlocks { file: self.clone(), size })
    }

    /// `batch` blocks that begin at random, and the tokens that follow theirs: two tensors of shape
    /// `[batch, size]` and dtype `Int64`. The beginnings are those of
    /// `torch.randint(len(tokens) - size, (batch,))` from the generator, or the default one.
    ///
    /// # Errors
    /// `Value` where there are not more tokens than a block has.
    pub fn random_batch(
        &self,
        batch: usize,
        size: usize,
        generator: Option<&Generator>,
    ) -> Result<(Tensor, Tensor)> {
        ensure!(
            self.len() > size,
            Value,
            "{} tokens are too few for blocks of {size} and the token that follows",
            self.len()
        );
        let generator = generator.unwrap_or(default_cpu_generator());
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for start in integers(self.len() - size, batch, generator)? {
            let (x, y) = self.block(start, size)?;
            inputs.push(x);
            targets.push(y);
        }
        Ok((op::stack(&inputs, 0)?, op::stack(&targets, 0)?))
    }

    /// `size` tokens from `start` on, and those from the next on.
    fn block(&self, start: usize, size: usize) -> Result<(Tensor, Tensor)> {
        let (start, size) = (start as i64, size as i64);
        let both = op::slice_tensor(&self.tokens, 0, Some(start), Some(start + size + 1), 1)?;
        let both = op::to_dtype(&both, DType::Int64, false, false, None)?;
        let part = |from| op::slice_tensor(&both, 0, Some(from), Some(from + size), 1);
        Ok((part(0)?, part(1)?))
    }
}

fn check_dtype(dtype: DType) -> Result<()> {
    let integer = !dtype.is_floating_point() && !dtype.is_complex() && dtype != DType::Bool;
    ensure!(integer, Value, "tokens must be integers, but got {dtype:?}");
    Ok(())
}

/// The blocks of a [`TokenFile`], each with the tokens that follow.
///
/// ```
/// use corten::data::{Dataset, TokenFile};
/// use corten::prelude::*;
///
/// let blocks = TokenFile::from_tensor(tensor![10, 11, 12, 13, 14]?)?.blocks(2)?;
/// assert_eq!(blocks.len(), 2);
/// let (x, y) = blocks.get(1)?;
/// assert_eq!((x.to_vec::<i64>()?, y.to_vec::<i64>()?), (vec![12, 13], vec![13, 14]));
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct TokenBlocks {
    file: TokenFile,
    size: usize,
}

impl Dataset for TokenBlocks {
    type Sample = (Tensor, Tensor);

    fn len(&self) -> usize {
        self.file.len().saturating_sub(1) / self.size
    }

    fn get(&self, index: usize) -> Result<(Tensor, Tensor)> {
        check_index(index, self.len())?;
        self.file.block(index * self.size, self.size)
    }
}
