"""Between dense matrices and 2:4 sparse ones: the elements that are kept, and metadata."""

from __future__ import annotations

import corten


def sparse_semi_structured_from_dense_cutlass(dense):
    """The elements of a matrix that are kept, two of four, and the metadata of where they were.

    Raises:
        RuntimeError: The dtype or the sizes do not fit, or there are more than two of four.
    """
    return corten._to_sparse_semi_structured(dense)


def sparse_semi_structured_to_dense_cutlass(sparse, meta_reordered):
    """The dense matrix of what was kept of it.

    Raises:
        RuntimeError: Elements and metadata do not fit together.
    """
    return corten.ops.corten.semi_structured_to_dense(sparse, meta_reordered)


def _sparse_semi_structured_tile(dense):
    """Of every tile of four by four the greatest elements, at most two in each row and column; the others
    are set to 0 in place."""
    rows, columns = dense.shape
    for top in range(0, rows - rows % 4, 4):
        for left in range(0, columns - columns % 4, 4):
            _prune(dense[top:top + 4, left:left + 4])
    return dense


def _prune(tile):
    kept_of_row, kept_of_column = [0] * 4, [0] * 4
    for place in tile.flatten().sort(descending=True, stable=True).indices.tolist():
        row, column = divmod(place, 4)
        if kept_of_row[row] < 2 and kept_of_column[column] < 2:
            kept_of_row[row] += 1
            kept_of_column[column] += 1
        else:
            tile[row, column] = 0


def _compute_compressed_swizzled_bitmask(dense):
    """Which elements are not 0, as bits: two bytes for each tile of four by four, in the order in which
    tiles of eight by eight are made of these."""
    rows, columns = dense.shape
    bits = (dense != 0).view(rows // 8, 2, 4, columns // 8, 2, 4).permute(0, 3, 1, 4, 2, 5)
    weights = 2 ** corten.arange(8, device=dense.device)
    bits = bits.reshape(rows // 8, columns // 8, 4, 2, 8).to(corten.int64)
    return (bits * weights).sum(-1).to(corten.uint8)
