//! Data sets, samplers and loaders.
//!
//! Names, defaults, orders and random numbers are those of PyTorch's `torch.utils.data`; workers are threads.
//!
//! ```
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let x = Tensor::from_vec((0..10).map(|i| i as f32).collect(), &[10, 1])?;
//! let y = Tensor::from_vec((0..10).collect::<Vec<i64>>(), &[10])?;
//! let loader = DataLoader::new(TensorDataset::new(vec![x, y])?, 4).shuffle(true).workers(2);
//! for batch in &loader {
//!     let batch = batch?; // one tensor per column
//!     assert!(batch[0].size(0)? <= 4);
//! }
//! # Ok(())
//! # }
//! ```

mod batches;
mod collate;
mod compose;
mod dataset;
mod distributed;
mod images;
mod iterable;
mod loader;
mod pin;
mod pool;
mod progress;
mod sampler;
mod table;
mod tokens;
mod worker;

pub use batches::Batches;
pub use collate::{Collate, default_collate};
pub use compose::{Columns, ConcatDataset, StackDataset};
pub use dataset::{
    Dataset, FnDataset, MapDataset, Subset, TensorDataset, random_split, random_split_fractions,
};
pub use distributed::DistributedSampler;
pub use images::{ImageFolder, ImageMode, read_image};
pub use iterable::{ChainDataset, FnIterable, IterableDataset, Samples};
pub use loader::DataLoader;
pub use pin::PinMemory;
pub use progress::Progress;
pub use sampler::{
    BatchSampler, Indices, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    WeightedRandomSampler,
};
pub use table::{CsvOptions, CsvRows, CsvTable};
pub use tokens::{TokenBlocks, TokenFile};
pub use worker::{WorkerInfo, worker_info};
