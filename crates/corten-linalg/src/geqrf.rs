//! QR factorisation by Householder reflectors in blocks: LAPACK's `geqrf`, and `ormqr` and `orgqr`, which
//! multiply with the orthogonal factor.

use crate::blas::{Blas, Kernel, vectorised};
use crate::householder::{BLOCK, Reflectors, larf, larfg};
use crate::number::Number;

/// `R` on and above the diagonal of a matrix by columns of `rows` numbers, below it the vectors of the
/// reflectors that lead to it.
pub(crate) fn geqrf<T: Number>(blas: &dyn Blas<T>, a: &mut [T], rows: usize, tau: &mut [T]) {
    for (step, tau) in tau.chunks_mut(BLOCK).enumerate() {
        let first = step * BLOCK;
        let (panel, rest) = a[first * rows..].split_at_mut(tau.len() * rows);
        vectorised(Panel { panel: &mut *panel, rows, first, tau: &mut *tau });
        if !rest.is_empty() {
            let block = Reflectors { columns: panel, stride: rows, rows, first, tau };
            block.apply_block(blas, rest, true);
        }
    }
}

/// `geqr2`: finds the reflectors of a few columns and applies them to these.
struct Panel<'a, T> {
    panel: &'a mut [T],
    rows: usize,
    first: usize,
    tau: &'a mut [T],
}

impl<T: Number> Kernel for Panel<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self { panel, rows, first, tau } = self;
        for (j, tau) in tau.iter_mut().enumerate() {
            let (column, rest) = panel[j * rows..].split_at_mut(rows);
            let start = first + j;
            *tau = larfg(&mut column[start..]);
            for other in rest.chunks_exact_mut(rows) {
                larf(&column[start..], tau.conj(), &mut other[start..]);
            }
        }
    }
}

/// Multiplies columns of `rows` numbers with the orthogonal factor, or its adjoint, from the left.
pub(crate) fn ormqr<T: Number>(
    blas: &dyn Blas<T>,
    (vectors, rows): (&[T], usize),
    tau: &[T],
    x: &mut [T],
    adjoint: bool,
) {
    let all = Reflectors { columns: vectors, stride: rows, rows, first: 0, tau };
    all.blocks(adjoint).for_each(|block| block.apply_block(blas, x, adjoint));
}
