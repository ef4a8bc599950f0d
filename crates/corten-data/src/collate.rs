//! Samples to batches.

use corten_core::{Result, bail, bf16, ensure, f16, try_push};
use corten_ops::{Tensor, op};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A sample that can be joined with others to a batch.
///
/// Tensors are stacked and numbers become a tensor; tuples, vectors, arrays and maps are joined
/// part by part; text stays a list. A struct of samples implements it by its fields:
///
/// ```
/// use corten::data::{Collate, default_collate};
/// use corten::prelude::*;
///
/// struct Example {
///     image: Tensor,
///     label: i64,
/// }
///
/// impl Collate for Example {
///     type Batch = (Tensor, Tensor);
///
///     fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
///         default_collate(samples.into_iter().map(|s| (s.image, s.label)).collect())
///     }
/// }
///
/// let image = tensor![1.0, 2.0]?;
/// let sample = |label| Example { image: image.clone(), label };
/// let (images, labels) = default_collate(vec![sample(3), sample(4)])?;
/// assert_eq!(images.sizes().as_slice(), [2, 2]);
/// assert_eq!(labels.to_vec::<i64>()?, [3, 4]);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait Collate: Sized + Send {
    /// What several samples become.
    type Batch: Send + 'static;

    /// Joins samples, of which there is at least one.
    ///
    /// # Errors
    /// `Runtime` when the samples differ in shape.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch>;
}

/// Joins samples to a batch, part by part.
///
/// # Errors
/// `Index` without a sample; `Runtime` when the samples differ in shape.
///
/// ```
/// use corten::data::default_collate;
///
/// let batch = default_collate(vec![(1i64, vec![0.5f64, 1.5]), (2, vec![2.5, 3.5])])?;
/// assert_eq!(batch.0.to_vec::<i64>()?, [1, 2]);
/// assert_eq!(batch.1[1].to_vec::<f64>()?, [1.5, 3.5]);
/// # Ok::<(), corten::Error>(())
/// ```
pub fn default_collate<T: Collate>(samples: Vec<T>) -> Result<T::Batch> {
    ensure!(!samples.is_empty(), Index, "list index out of range");
    T::collate(samples)
}

impl Collate for Tensor {
    type Batch = Tensor;

    fn collate(samples: Vec<Self>) -> Result<Tensor> {
        op::stack(&samples, 0)
    }
}

/// A sample for each column of samples that are lists.
fn columns<T>(samples: Vec<impl IntoIterator<Item = T>>, width: usize) -> Result<Vec<Vec<T>>> {
    let mut columns = Vec::new();
    for _ in 0..width {
        try_push(&mut columns, Vec::new())?;
    }
    for sample in samples {
        let mut count = 0;
        for value in sample {
            ensure!(
                count < width,
                Runtime,
                "each element in list of batch should be of equal size"
            );
            try_push(&mut columns[count], value)?;
            count += 1;
        }
        ensure!(count == width, Runtime, "each element in list of batch should be of equal size");
    }
    Ok(columns)
}

impl<T: Collate> Collate for Vec<T> {
    type Batch = Vec<T::Batch>;

    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        let width = samples.first().map_or(0, Vec::len);
        columns(samples, width)?.into_iter().map(T::collate).collect()
    }
}

impl<T: Collate, const N: usize> Collate for [T; N] {
    type Batch = Vec<T::Batch>;

    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        columns(samples, N)?.into_iter().map(T::collate).collect()
    }
}

macro_rules! collate_tuples {
    ($(($($name:ident $column:ident $at:tt),+);)+) => {$(
        impl<$($name: Collate),+> Collate for ($($name,)+) {
            type Batch = ($($name::Batch,)+);

            fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
                $(let mut $column = Vec::new();)+
                for sample in samples {
                    $(try_push(&mut $column, sample.$at)?;)+
                }
                Ok(($($name::collate($column)?,)+))
            }
        }
    )+};
}

collate_tuples! {
    (A a 0);
    (A a 0, B b 1);
    (A a 0, B b 1, C c 2);
    (A a 0, B b 1, C c 2, D d 3);
    (A a 0, B b 1, C c 2, D d 3, E e 4);
    (A a 0, B b 1, C c 2, D d 3, E e 4, F f 5);
}

macro_rules! collate_maps {
    ($($map:ident: $($bound:path),+;)+) => {$(
        impl<K: $($bound +)+ Clone + Send + 'static, V: Collate> Collate for $map<K, V> {
            type Batch = $map<K, V::Batch>;

            /// The keys are those of the first sample.
            fn collate(mut samples: Vec<Self>) -> Result<Self::Batch> {
                let keys: Vec<K> = samples.first().map_or_else(Vec::new, |map| map.keys().cloned().collect());
                let mut batch = $map::new();
                for key in keys {
                    let mut column = Vec::new();
                    for sample in &mut samples {
                        let Some(value) = sample.remove(&key) else {
                            bail!(Index, "a sample lacks a key that the first sample of its batch has");
                        };
                        try_push(&mut column, value)?;
                    }
                    batch.insert(key, V::collate(column)?);
                }
                Ok(batch)
            }
        }
    )+};
}

collate_maps! {
    BTreeMap: Ord;
    HashMap: Hash, Eq;
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

collate_numbers!(i64, i32, i16, i8, u64, u32, u16, u8, f64, f32, f16, bf16, bool);

impl Collate for usize {
    type Batch = Tensor;

    fn collate(samples: Vec<Self>) -> Result<Tensor> {
        i64::collate(samples.into_iter().map(|number| number as i64).collect())
    }
}

macro_rules! collate_text {
    ($($text:ty),+) => {$(
        impl Collate for $text {
            type Batch = Vec<$text>;

            fn collate(samples: Vec<Self>) -> Result<Vec<$text>> {
                Ok(samples)
            }
        }
    )+};
}

collate_text!(String, &'static str);
