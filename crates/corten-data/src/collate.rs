//! Samples to batches.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// A sample that can be joined with others to a batch.
pub trait Collate: Sized + Send {
    /// What several samples become.
    type Batch: Send + 'static;

    /// Joins samples, of which there is at least one.
    ///
    /// # Errors
    /// `Runtime` when the samples differ in shape.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch>;
}

impl Collate for Tensor {
    type Batch = Tensor;

    fn collate(samples: Vec<Self>) -> Result<Tensor> {
        op::stack(&samples, 0)
    }
}

impl Collate for Vec<Tensor> {
    type Batch = Vec<Tensor>;

    /// Stacks column by column.
    fn collate(samples: Vec<Self>) -> Result<Vec<Tensor>> {
        let columns = samples.first().map_or(0, Vec::len);
        (0..columns)
            .map(|column| {
                let column: Vec<Tensor> =
                    samples.iter().filter_map(|sample| sample.get(column).cloned()).collect();
                op::stack(&column, 0)
            })
            .collect()
    }
}

impl<A: Collate, B: Collate> Collate for (A, B) {
    type Batch = (A::Batch, B::Batch);

    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        let (first, second) = samples.into_iter().unzip();
        Ok((A::collate(first)?, B::collate(second)?))
    }
}

macro_rules! collate_numbers {
    ($($number:ty),+) => {$(
        impl Collate for $number {
            type Batch = Tensor;

            fn collate(samples: Vec<Self>) -> Result<Tensor> {
                let count = samples.len() as i64;
                Tensor::from_vec(samples, &[count])
            }
        }
    )+};
}

collate_numbers!(i64, i32, u8, f32, f64, bool);

impl Collate for String {
    type Batch = Vec<String>;

    fn collate(samples: Vec<Self>) -> Result<Vec<String>> {
        Ok(samples)
    }
}
