//! Any list of items is an index of a strided tensor or an error: what is read was written there, and
//! nothing outside is touched.

#![no_main]

use corten_ops::index::{self, IndexItem, Slice};
use corten_ops::{Result, Tensor, op};
use libfuzzer_sys::fuzz_target;
use std::sync::Once;

/// Bytes that decide.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn below(&mut self, count: u8) -> i64 {
        i64::from(self.byte() % count)
    }

    /// Mostly small, now and then at the ends of the range.
    fn number(&mut self) -> i64 {
        match self.byte() {
            255 => i64::MAX,
            254 => i64::MIN,
            253 => 1 << 40,
            byte => i64::from(byte % 11) - 5,
        }
    }

    fn optional(&mut self) -> Option<i64> {
        if self.byte() % 3 == 0 { None } else { Some(self.number()) }
    }

    /// A view of a tensor with distinct elements: permuted, with steps, expanded, from the middle.
    fn tensor(&mut self) -> Result<Tensor> {
        let sizes: Vec<i64> = (0..self.below(5)).map(|_| self.below(5)).collect();
        let count: i64 = sizes.iter().product();
        let mut tensor = Tensor::from_vec((0..count).collect::<Vec<i64>>(), &sizes)?;
        for _ in 0..self.below(4) {
            let rank = tensor.dim() as i64;
            if rank == 0 {
                break;
            }
            let dim = self.below(8) % rank;
            tensor = match self.below(5) {
                0 => op::transpose_int(&tensor, dim, self.below(8) % rank)?,
                1 => op::slice_tensor(&tensor, dim, Some(self.below(3)), None, 1 + self.below(3))?,
                2 => op::unsqueeze(&tensor, dim)?,
                3 => {
                    let mut sizes = op::unsqueeze(&tensor, dim)?.sizes();
                    sizes[dim as usize] = 1 + self.below(3);
                    op::expand(&op::unsqueeze(&tensor, dim)?, &sizes, false)?
                }
                _ => op::flip(&tensor, &[dim])?,
            };
        }
        Ok(tensor)
    }

    fn item(&mut self, tensor: &Tensor) -> Result<IndexItem> {
        Ok(match self.below(8) {
            0 => IndexItem::Int(self.number()),
            1 | 2 => IndexItem::Slice(Slice {
                start: self.optional(),
                stop: self.optional(),
                step: self.optional(),
            }),
            3 => IndexItem::None,
            4 => IndexItem::Ellipsis,
            5 => IndexItem::Bool(self.below(2) == 1),
            6 => {
                let sizes: Vec<i64> = (0..self.below(3)).map(|_| self.below(4)).collect();
                let count: i64 = sizes.iter().product();
                let numbers: Vec<i64> = (0..count).map(|_| self.number()).collect();
                IndexItem::Tensor(Tensor::from_vec(numbers, &sizes)?)
            }
            _ => {
                let first = self.below(4).min(tensor.dim() as i64) as usize;
                let end = (first + self.below(3) as usize).min(tensor.dim());
                let sizes = tensor.sizes();
                let count: i64 = sizes[first..end].iter().product();
                let mask: Vec<bool> = (0..count).map(|_| self.below(2) == 1).collect();
                IndexItem::Tensor(Tensor::from_vec(mask, &sizes[first..end])?)
            }
        })
    }
}

fn check(bytes: &[u8]) -> Result<()> {
    let mut choices = Choices(bytes.iter());
    let tensor = choices.tensor()?;
    let items = (0..choices.below(5)).map(|_| choices.item(&tensor)).collect::<Result<Vec<_>>>()?;
    let found = index::get(&tensor, &items)?;
    let known = tensor.to_vec::<i64>()?;
    for value in found.to_vec::<i64>()? {
        assert!(known.contains(&value), "{value} is not an element");
    }
    // What is written by an index is read by it; elements that are written twice get one of the values.
    let target = op::clone(&tensor, None)?;
    index::set(&target, &items, &op::neg(&op::add_scalar(&found, 1.into(), 1.into())?)?)?;
    let read = index::get(&target, &items)?;
    assert_eq!(read.sizes(), found.sizes());
    assert!(read.to_vec::<i64>()?.iter().all(|&value| value < 0));
    Ok(())
}

fuzz_target!(init: {
    static START: Once = Once::new();
    START.call_once(|| corten::init().unwrap_or_else(|error| panic!("{error}")));
}, |bytes: &[u8]| {
    if let Err(error) = check(bytes) {
        assert_ne!(error.kind(), corten_ops::ErrorKind::Internal, "{error}");
    }
});
