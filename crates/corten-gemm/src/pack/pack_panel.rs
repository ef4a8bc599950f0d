//! Packing of matrices in memory into micro-panels.

use crate::pack::pack_kernels::PackKernels;
use crate::types::element::Scalar;
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::MatrixRef;

/// Packs a matrix to rows `width` apart.
pub(crate) fn pack_panel<E: Scalar>(
    pack: &PackKernels<E>,
    to: &mut [E],
    from: MatrixRef<'_, E>,
    width: usize,
) {
    let ([rows, cols], [row, col]) = (from.shape(), from.strides());
    assert!(cols <= width && width.is_multiple_of(pack.lanes) && rows * width <= to.len());
    let rows_at = |stride, count, len| StridedRows { first: from.first(), stride, count, len };
    if col == 1 {
        // SAFETY: the matrix is readable, `to` holds all rows, and the kernels are those of the
        // instruction set in use.
        unsafe { (pack.copy)(rows_at(row, rows, cols), to.as_mut_ptr(), width) }
    } else if row == 1 {
        // SAFETY: as above.
        unsafe { (pack.transpose)(rows_at(col, cols, rows), to.as_mut_ptr(), width) }
    } else {
        for (i, row) in to.chunks_exact_mut(width).enumerate().take(rows) {
            row.fill(E::ZERO);
            (0..cols).for_each(|j| row[j] = from.at([i, j]));
        }
    }
}

/// Packs rows of `a` into consecutive micro-panels, in which the rows of a step are contiguous and steps
/// are `width` apart.
pub(crate) fn pack_panels_a<E: Scalar>(
    pack: &PackKernels<E>,
    to: &mut [E],
    from: MatrixRef<'_, E>,
    groups: Partition,
    width: usize,
) {
    let ([rows, depth], [row, step]) = (from.shape(), from.strides());
    let offset = width * depth;
    assert!(groups.length == rows && groups.get(0).len() <= width, "groups of the rows");
    assert!(width.is_multiple_of(pack.lanes) && to.len() == groups.count * offset);
    if row == 1 {
        let rows_at = StridedRows { first: from.first(), stride: step, count: depth, len: rows };
        // SAFETY: the matrix is readable, `to` holds all micro-panels, and the kernels are those
        // of the instruction set in use.
        return unsafe { (pack.pack_panels)(rows_at, groups, to.as_mut_ptr(), width) };
    }
    for (to, rows) in to.chunks_exact_mut(offset).zip(groups.all()) {
        pack_panel(pack, to, from.rows(rows).t(), width);
    }
}
