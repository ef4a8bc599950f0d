//! Sums over everything and over one dimension.

use crate::{Case, Size, Work, operand};
use corten::core::Result;
use corten::op;

pub(crate) fn cases(size: Size) -> Result<Vec<Case>> {
    let (rows, columns) = if size == Size::Small { (7, 33) } else { (4096, 1024) };
    Ok(vec![all(rows, columns)?, down(rows, columns)?])
}

fn all(rows: i64, columns: i64) -> Result<Case> {
    let (x, x0) = operand(&[rows, columns])?;
    Ok(Case {
        name: format!("sum {rows}x{columns}"),
        work: Work::Bytes(4 * x0.len()),
        scale: (x0.len() as f32).sqrt(),
        v0: Box::new(move || vec![all_v0(&x0)]),
        library: Box::new(move || op::sum(&x, None)),
    })
}

/// In f64, so that the definition and not its rounding is what the library is held against.
fn all_v0(x: &[f32]) -> f32 {
    x.iter().map(|&x| f64::from(x)).sum::<f64>() as f32
}

fn down(rows: i64, columns: i64) -> Result<Case> {
    let (x, x0) = operand(&[rows, columns])?;
    Ok(Case {
        name: format!("sum {rows}x{columns} over dim 0"),
        work: Work::Bytes(4 * x0.len()),
        scale: (rows as f32).sqrt(),
        v0: Box::new(move || down_v0(&x0, columns as usize)),
        library: Box::new(move || op::sum_dim_intlist(&x, Some(&[0]), false, None)),
    })
}

fn down_v0(x: &[f32], columns: usize) -> Vec<f32> {
    let column = |j: usize| x.iter().skip(j).step_by(columns).map(|&x| f64::from(x)).sum::<f64>();
    (0..columns).map(|j| column(j) as f32).collect()
}
