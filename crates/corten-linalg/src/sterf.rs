//! Eigenvalues of symmetric tridiagonal matrices without vectors: the QR iteration of K. Pal, J. Walker and
//! W. Kahan, LAPACK's `dsterf`, which needs neither square roots nor rotations.

use crate::dqds::{NEGLIGIBLE, SWEEPS, TINY};
use crate::spectral::NoConvergence;

/// The eigenvalues of a symmetric tridiagonal matrix, the smallest first, from its diagonal and what is
/// beside that; of size one or so.
pub(crate) fn eigenvalues(mut d: Vec<f64>, mut e: Vec<f64>) -> Result<Vec<f64>, NoConvergence> {
    e.iter_mut().for_each(|e| *e *= *e);
    let (mut end, mut left) = (d.len(), SWEEPS * d.len());
    while end > 0 {
        let small = |k: usize| e[k - 1] <= NEGLIGIBLE * (d[k - 1] * d[k]).abs() + TINY;
        let start = (1..end).rev().find(|&k| small(k)).unwrap_or(0);
        if start + 1 == end {
            end -= 1;
        } else if start + 2 == end {
            [d[start], d[start + 1]] = of_two(d[start], e[start].sqrt(), d[start + 1]);
            end -= 2;
        } else {
            left = left.checked_sub(1).ok_or(NoConvergence)?;
            sweep(&mut d[start..end], &mut e[start..end - 1]);
        }
    }
    d.sort_unstable_by(f64::total_cmp);
    Ok(d)
}

/// The eigenvalues of a symmetric matrix of two rows.
fn of_two(a: f64, b: f64, c: f64) -> [f64; 2] {
    let (sum, root) = (a + c, (a - c).hypot(2.0 * b));
    let (large, small) = if a.abs() > c.abs() { (a, c) } else { (c, a) };
    let first = 0.5 * (sum + root.copysign(sum));
    match sum == 0.0 {
        true => [0.5 * root, -0.5 * root],
        false => [first, (large / first) * small - (b / first) * b],
    }
}

/// One step of the iteration, shifted by the eigenvalue of the last two rows that is nearer to the last
/// element.
fn sweep(d: &mut [f64], e: &mut [f64]) {
    let last = e.len();
    let beside = e[last - 1].sqrt();
    let half = (d[last - 1] - d[last]) / (2.0 * beside);
    let shift = d[last] - beside / (half + half.hypot(1.0).copysign(half));
    let (mut cosine, mut sine) = (1.0, 0.0);
    let mut gamma = d[0] - shift;
    let mut p = gamma * gamma;
    for i in 0..last {
        let (square, before) = (e[i], cosine);
        let r = p + square;
        if i > 0 {
            e[i - 1] = sine * r;
        }
        (cosine, sine) = (p / r, square / r);
        let (below, above) = (d[i + 1], gamma);
        gamma = cosine * (below - shift) - sine * above;
        d[i] = above + (below - gamma);
        p = if cosine != 0.0 { gamma * gamma / cosine } else { before * square };
    }
    e[last - 1] = sine * p;
    d[last] = shift + gamma;
}
