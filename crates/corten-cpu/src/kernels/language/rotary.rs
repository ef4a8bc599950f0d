//! Rotary positions: pairs of elements turned by angles.

use super::super::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::rows::loops::{map, row_functions};
use crate::rows::{Float, Wide};
use corten_core::{
    Access, AccessSet, Dims, Element, Result, ensure, match_dtype, not_implemented_for,
};
use corten_ops::{Tensor, op};

/// Pairs of the last dimension turned by angles whose cosines and sines are given.
///
/// # Errors
/// `Runtime` when shapes do not fit, `NotImplemented` for dtypes that are no floating-point numbers.
pub fn rotary_embedding(
    input: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    interleaved: bool,
) -> Result<Tensor> {
    let sizes = input.sizes();
    if !input.dtype().is_floating_point() {
        return Err(not_implemented_for("rotary_embedding", input.dtype()));
    }
    ensure!(
        !sizes.is_empty() && cos.dim() > 0 && cos.sizes() == sin.sizes(),
        Runtime,
        "rotary_embedding: expected an input of at least 1 dimension and cosines and sines of one size, but got \
         sizes {:?}, {:?} and {:?}",
        sizes.as_slice(),
        cos.sizes().as_slice(),
        sin.sizes().as_slice()
    );
    let table = cos.sizes();
    let (width, angles) = (sizes[sizes.len() - 1], table[table.len() - 1]);
    let leading = &sizes[..sizes.len() - 1];
    let strides = broadcast(&table[..table.len() - 1], leading, angles);
    let (Some(strides), true) = (strides, angles * 2 <= width) else {
        corten_core::bail!(
            Runtime,
            "rotary_embedding: angles of size {:?} do not broadcast to pairs of an input of size {:?}",
            table.as_slice(),
            sizes.as_slice()
        )
    };
    let out = empty(&sizes, input)?;
    if is_shape_only(&out) || out.numel() == 0 {
        return Ok(out);
    }
    let input = contiguous(input)?;
    match_dtype!(input.dtype(), "rotary_embedding", Float, T => {
        let wide = <<T as Float>::Wide as Element>::DTYPE;
        let [cos, sin] = [cos, sin].map(|table| contiguous(&op::to_dtype(table, wide, false, false, None)?));
        let (cos, sin) = (cos?, sin?);
        let set = AccessSet::acquire(&[
            (&out, Access::Write),
            (&input, Access::Read),
            (&cos, Access::Read),
            (&sin, Access::Read),
        ])?;
        let turn = Turn::<T> {
            input: set.read(1)?,
            tables: [set.read(2)?, set.read(3)?],
            leading,
            strides: &strides,
            angles: angles as usize,
            interleaved,
        };
        let width = width as usize;
        for_each_run(set.write::<T>(0)?, width, grain_of(width), |rows, out| {
            let (mut buffer, mut made) = (Vec::new(), Vec::new());
            for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
                turn.row(row, out, (&mut buffer, &mut made));
            }
            Ok(())
        })
    })?;
    Ok(out)
}

/// How far the angles of neighbours in each leading dimension lie apart; `None` where sizes do not broadcast.
fn broadcast(table: &[i64], leading: &[i64], angles: i64) -> Option<Dims> {
    let missing = leading.len().checked_sub(table.len())?;
    let (mut strides, mut step) = (Dims::from(leading), angles);
    strides.fill(0);
    for place in (0..table.len()).rev() {
        let size = table[place];
        if size != 1 {
            (size == leading[missing + place]).then_some(())?;
            strides[missing + place] = step;
        }
        step *= size;
    }
    Some(strides)
}

struct Turn<'a, T: Float> {
    input: &'a [T],
    /// Cosines and sines.
    tables: [&'a [T::Wide]; 2],
    leading: &'a [i64],
    strides: &'a [i64],
    angles: usize,
    interleaved: bool,
}

impl<T: Float> Turn<'_, T> {
    fn row(&self, row: usize, out: &mut [T], buffers: (&mut Vec<T::Wide>, &mut Vec<T::Wide>)) {
        let (mut rest, mut start) = (row as i64, 0);
        for (&size, &stride) in self.leading.iter().zip(self.strides).rev() {
            start += rest % size * stride;
            rest /= size;
        }
        let [cos, sin] = self.tables.map(|table| &table[start as usize..][..self.angles]);
        let x = T::wide_row(&self.input[row * out.len()..][..out.len()], buffers.0);
        T::fill(out, buffers.1, |out| {
            let pairs = 2 * self.angles;
            out[pairs..].copy_from_slice(&x[pairs..]);
            if self.interleaved {
                turn_neighbours(&mut out[..pairs], &x[..pairs], cos, sin);
                return;
            }
            let (first, second) = out[..pairs].split_at_mut(self.angles);
            let (a, b) = x[..pairs].split_at(self.angles);
            map(first, [a, cos, b, sin], Difference);
            map(second, [b, cos, a, sin], Total);
        });
    }
}

fn turn_neighbours<W: Wide>(out: &mut [W], x: &[W], cos: &[W], sin: &[W]) {
    let pairs = out.chunks_exact_mut(2).zip(x.chunks_exact(2));
    for ((out, x), (&cos, &sin)) in pairs.zip(cos.iter().zip(sin)) {
        out[0] = x[0] * cos - x[1] * sin;
        out[1] = x[1] * cos + x[0] * sin;
    }
}

row_functions! {
    Difference: 4 |a, cos, b, sin| a * cos - b * sin;
    Total: 4 |a, cos, b, sin| a * cos + b * sin;
}
