//! Softmax over the last dimension.

use crate::{Case, Size, Work, operand};
use corten::core::Result;
use corten::op;

pub(crate) fn cases(size: Size) -> Result<Vec<Case>> {
    let (rows, columns) = if size == Size::Small { (5, 37) } else { (1024, 1024) };
    let (x, x0) = operand(&[rows, columns])?;
    Ok(vec![Case {
        name: format!("softmax {rows}x{columns}"),
        work: Work::Bytes(8 * x0.len()),
        scale: 1.0 / columns as f32,
        v0: Box::new(move || v0(&x0, columns as usize)),
        library: Box::new(move || op::softmax_int(&x, -1, None)),
    }])
}

fn v0(x: &[f32], columns: usize) -> Vec<f32> {
    x.chunks(columns).flat_map(row_v0).collect()
}

/// The maximum is taken off first, so that no exponential overflows.
fn row_v0(row: &[f32]) -> Vec<f32> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f32> = row.iter().map(|x| (x - largest).exp()).collect();
    let total: f32 = exponentials.iter().sum();
    exponentials.iter().map(|x| x / total).collect()
}
