//! Products of two matrices.

use crate::{Case, Size, Work, operand};
use corten::core::Result;
use corten::op;

pub(crate) fn cases(size: Size) -> Result<Vec<Case>> {
    let sizes: &[[i64; 3]] =
        if size == Size::Small { &[[3, 17, 5]] } else { &[[64, 64, 64], [512, 512, 512]] };
    sizes.iter().map(|&size| case(size)).collect()
}

fn case([m, k, n]: [i64; 3]) -> Result<Case> {
    let ((a, a0), (b, b0)) = (operand(&[m, k])?, operand(&[k, n])?);
    Ok(Case {
        name: format!("mm {m}x{k} {k}x{n}"),
        work: Work::Flops((2 * m * k * n) as usize),
        scale: (k as f32).sqrt(),
        v0: Box::new(move || v0(&a0, &b0, k as usize, n as usize)),
        library: Box::new(move || op::mm(&a, &b)),
    })
}

fn v0(a: &[f32], b: &[f32], k: usize, n: usize) -> Vec<f32> {
    let element = |row: &[f32], j: usize| (0..k).map(|i| row[i] * b[i * n + j]).sum();
    a.chunks(k).flat_map(|row| (0..n).map(move |j| element(row, j))).collect()
}
