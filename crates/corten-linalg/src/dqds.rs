//! Singular values of bidiagonal matrices without vectors: the differential quotient-difference iteration with
//! shifts (dqds) of K. Fernando and B. Parlett, "Accurate singular values and differential qd algorithms",
//! 1994, with simpler shifts than LAPACK's `dlasq1`.

use crate::spectral::NoConvergence;

/// Sweeps for every value, at most.
pub(crate) const SWEEPS: usize = 60;

/// Squares are negligible below this, relative to others.
pub(crate) const NEGLIGIBLE: f64 = f64::EPSILON * f64::EPSILON / 4.0;

/// So are squares below this, beside a matrix of size one, and products of such would leave the range.
pub(crate) const TINY: f64 = 1e-280;

/// The singular values of an upper bidiagonal matrix, the largest first, from its diagonal and what is
/// beside that; of size one or so.
pub(crate) fn singular_values(mut d: Vec<f64>, mut e: Vec<f64>) -> Result<Vec<f64>, NoConvergence> {
    let size = d.len();
    d.iter_mut().chain(&mut e).for_each(|value| *value *= *value);
    let mut qd = Qd { next: (d.clone(), e.clone()), q: d, e, left: SWEEPS * size };
    let mut blocks = vec![QdSegment { start: 0, end: size, shifted: 0.0, bound: None }];
    while let Some(mut block) = blocks.pop() {
        while block.end > block.start {
            let QdSegment { start, end, shifted, .. } = block;
            let small = |k: usize| qd.e[k - 1] <= NEGLIGIBLE * (shifted + qd.q[k]) + TINY;
            let cut = (start + 1..end).rev().find(|&k| small(k)).unwrap_or(start);
            match end - cut {
                1 => qd.q[cut] += shifted,
                2 => {
                    let (a, c) = (qd.q[cut] + qd.e[cut], qd.q[cut + 1]);
                    let least = smaller_of_two([a, c], qd.e[cut] * c, qd.q[cut] * c);
                    qd.q[cut] = shifted + (a + c - least);
                    qd.q[cut + 1] = shifted + least;
                }
                _ if cut > start => {
                    blocks.push(QdSegment { start, end: cut, shifted, bound: None });
                    block = QdSegment { start: cut, bound: None, ..block };
                    continue;
                }
                _ => {
                    qd.advance(&mut block)?;
                    continue;
                }
            }
            block.end = if end - cut == 1 { end - 1 } else { end - 2 };
            block.bound = block.bound.map(|_| (f64::INFINITY, true));
        }
    }
    let mut found = qd.q;
    found.iter_mut().for_each(|square| *square = square.max(0.0).sqrt());
    found.sort_unstable_by(|a, b| b.total_cmp(a));
    Ok(found)
}

/// Rows that are computed without the others.
struct QdSegment {
    start: usize,
    end: usize,
    /// What all eigenvalues were diminished by.
    shifted: f64,
    /// What the smallest eigenvalue does not exceed, and whether the last row says so; unknown before the
    /// first step.
    bound: Option<(f64, bool)>,
}

/// The squares of a bidiagonal matrix, and room for those of the next one.
struct Qd {
    q: Vec<f64>,
    e: Vec<f64>,
    next: (Vec<f64>, Vec<f64>),
    left: usize,
}

impl Qd {
    /// One step on a block of three rows or more, with a shift that leaves no eigenvalue negative.
    fn advance(&mut self, block: &mut QdSegment) -> Result<(), NoConvergence> {
        let (rows, beside) = (block.start..block.end, block.start..block.end - 1);
        let (q, e) = (&mut self.q[rows.clone()], &mut self.e[beside.clone()]);
        // The iteration finds the eigenvalues at the end, which should be the small ones.
        if block.bound.is_none() && 1.5 * q[0] < q[q.len() - 1] {
            q.reverse();
            e.reverse();
        }
        let mut shift = match block.bound {
            Some((bound, true)) => lowest(q, e).clamp(0.0, bound),
            Some((bound, false)) => 0.25 * bound,
            None => 0.0,
        };
        for attempt in 0.. {
            self.left = self.left.checked_sub(1).ok_or(NoConvergence)?;
            let next = (&mut self.next.0[rows.clone()], &mut self.next.1[beside.clone()]);
            let (least, last) = step((q, e), shift, (&mut *next.0, &mut *next.1));
            if least.min(last) >= 0.0 || shift == 0.0 {
                q.copy_from_slice(next.0);
                e.copy_from_slice(next.1);
                block.bound = Some((least.min(last).max(0.0), last <= least));
                break;
            }
            shift = match least > 0.0 {
                _ if attempt > 2 => 0.0,
                // Where only the last one fails, it tells by how much.
                true => ((shift + last) * (1.0 - 2.0 * f64::EPSILON)).max(0.0),
                false => 0.25 * shift,
            };
        }
        block.shifted += shift;
        Ok(())
    }
}

/// The next matrix of the iteration; returns the smallest of its terms `d` but the last, and the last.
fn step(
    (q, e): (&[f64], &[f64]),
    shift: f64,
    (to_q, to_e): (&mut [f64], &mut [f64]),
) -> (f64, f64) {
    let mut d = q[0] - shift;
    let mut least = f64::INFINITY;
    for ((&e, &below), (to_q, to_e)) in e.iter().zip(&q[1..]).zip(to_q.iter_mut().zip(to_e)) {
        least = if d < least { d } else { least };
        *to_q = d + e;
        let ratio = below / *to_q;
        *to_e = e * ratio;
        d = d * ratio - shift;
    }
    to_q[q.len() - 1] = d;
    if d.is_nan() { (-1.0, -1.0) } else { (least, d) }
}

/// Rows above the last one that the estimate of the smallest eigenvalue goes back.
const DEPTH: usize = 12;

/// An estimate of the smallest eigenvalue from the last rows, seldom too large.
fn lowest(q: &[f64], e: &[f64]) -> f64 {
    let last = q.len() - 1;
    let (end, beside) = (q[last], e[last - 1]);
    let guess = smaller_of_two([q[last - 1] + beside, end], beside * end, q[last - 1] * end);
    let first = last.saturating_sub(DEPTH);
    let mut pivot = q[first] + e[first] - guess;
    for k in first + 1..last {
        pivot = q[k] + e[k] - guess - e[k - 1] * q[k] / pivot;
        if pivot.is_nan() || pivot <= 0.0 {
            return 0.25 * guess;
        }
    }
    let above = pivot + guess;
    let better = smaller_of_two([above, end], beside * end, (above - beside) * end);
    better - 1e-4 * (end - better).abs()
}

/// The smaller eigenvalue of a symmetric matrix of two rows, from its diagonal, the square of what is
/// beside that, and the determinant.
fn smaller_of_two([a, c]: [f64; 2], square: f64, determinant: f64) -> f64 {
    let half = 0.5 * (a - c);
    let larger = 0.5 * (a + c) + (half * half + square).sqrt();
    if larger > 0.0 { (determinant / larger).max(0.0) } else { 0.0 }
}
