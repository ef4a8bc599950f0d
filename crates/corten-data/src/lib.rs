//! Data sets, samplers and loaders.
//!
//! ```no_run
//! use corten_data::{DataLoader, TensorDataset};
//! use corten_ops::Tensor;
//! # fn main() -> corten_core::Result<()> {
//! let x = Tensor::from_vec((0..10).map(|i| i as f32).collect(), &[10, 1])?;
//! let y = Tensor::from_vec((0..10).collect::<Vec<i64>>(), &[10])?;
//! let loader = DataLoader::new(TensorDataset::new(vec![x, y])?, 4).shuffle(true).workers(2);
//! for batch in loader.iter()? {
//!     let batch = batch?; // one tensor per column
//!     assert!(batch[0].size(0)? <= 4);
//! }
//! # Ok(())
//! # }
//! ```

mod collate;
mod dataset;
mod loader;
mod sampler;
mod worker;

pub use collate::Collate;
pub use dataset::{Dataset, FnDataset, Subset, TensorDataset, random_split};
pub use loader::{Batches, DataLoader};
pub use sampler::{BatchSampler, RandomSampler, Sampler, SequentialSampler, WeightedSampler};
