"""What the parts of compressed tensors must be, and the functions that make tensors of them."""

from __future__ import annotations

import corten
from corten._overriding import as_operator
from corten._utils import scalar_type

from ._entries import lacks_data
from ._compressed import (
    BSC, BSR, CSC, CSR, LAYOUTS, NAMES, assembled, by_rows, in_blocks, word,
)


def _require(holds, message):
    if not holds:
        raise RuntimeError(message)


def check(compressed, plain, values, size, layout):
    """That parts make a tensor of this size and layout.

    Raises:
        RuntimeError: They do not.
    """
    rows = by_rows(layout)
    first, second = _names(rows)
    start = _check_dimensions(first, second, compressed, plain, values, size, layout)
    blocks = tuple(values.shape[start + 1:start + 3]) if in_blocks(layout) else (1, 1)
    grid = _check_shapes(first, second, (compressed, plain, values), size, layout, blocks)
    _require(
        compressed.dtype == plain.dtype,
        f"{first} and {second} must have the same dtype, bot got {scalar_type(compressed.dtype)} and "
        f"{scalar_type(plain.dtype)}, respectively",
    )
    _require(
        compressed.dtype in (corten.int32, corten.int64),
        f"{first} and {second} dtype must be Int or Long, but got {scalar_type(compressed.dtype)}",
    )
    _require(
        compressed.device == plain.device == values.device,
        f"device of {first} (={compressed.device}) must match device of values (={values.device})",
    )
    if not lacks_data(compressed):
        _check_places(compressed, plain, *(grid if rows else grid[::-1]), rows)


def _names(rows):
    """What messages call the parts."""
    return ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")


def check_indices(is_crow, compressed_idx, plain_idx, cdim, dim, nnz):
    """That the indices of ``nnz`` entries are those of ``cdim`` rows (columns) of width ``dim``.

    Raises:
        RuntimeError: They are not.
    """
    first, second = _names(is_crow)
    _require(
        compressed_idx.shape[-1] == cdim + 1,
        f"{first} have wrong shape: {first}.shape[-1] = {compressed_idx.shape[-1]} is not equal to "
        f"{'nrows' if is_crow else 'ncols'} + 1 = {cdim + 1}",
    )
    _require(
        plain_idx.shape[-1] == nnz,
        f"{second} have wrong shape: {second}.shape[-1] = {plain_idx.shape[-1]} is not equal to nnz = "
        f"{nnz}",
    )
    _require(
        compressed_idx.dtype == plain_idx.dtype,
        f"Found dtype {scalar_type(compressed_idx.dtype)} but expected {scalar_type(plain_idx.dtype)}",
    )
    _check_places(compressed_idx, plain_idx, cdim, dim, is_crow)


def _require_entries(values, start, inner):
    _require(
        values.dim() > start + inner,
        f"values must have dimensionality > sum of batch and block dimensionalities (={start} + "
        f"{inner}) but got {values.dim()}",
    )


def _check_dimensions(first, second, compressed, plain, values, size, layout):
    """That numbers of dimensions fit together; gives the number of batch dimensions."""
    for name, part in ((first, compressed), (second, plain)):
        _require(
            part.dim() == 0 or part.stride(-1) == 1, f"expected {name} to be a contiguous tensor per batch"
        )
    _require(
        compressed.dim() >= 1, f"{first} must have dimensionality >= 1 but got {compressed.dim()}"
    )
    _require(
        compressed.dim() == plain.dim(),
        f"{first} and {second} dimensionalities must be equal but got {compressed.dim()} and "
        f"{plain.dim()}, respectively",
    )
    start, inner = compressed.dim() - 1, 2 if in_blocks(layout) else 0
    _require_entries(values, start, inner)
    dense = values.dim() - start - inner - 1
    _require(
        len(size) == start + 2 + dense,
        f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={start} + 2 "
        f"+ {dense}) but got {len(size)}",
    )
    return start


def _check_shapes(first, second, parts, size, layout, blocks):
    """That shapes fit together; gives the numbers of rows and columns of blocks."""
    compressed, plain, values = parts
    start, rows = compressed.dim() - 1, by_rows(layout)
    _require(min(size) >= 0, f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    for part in parts:
        _require(
            tuple(part.shape[:start]) == tuple(size[:start]),
            f"all batch dimensions of {first} (={list(compressed.shape[:start])}), {second} "
            f"(={list(plain.shape[:start])}), and values (={list(values.shape[:start])}) must be equal "
            f"to tensor batch dimensions (={list(size[:start])})",
        )
    for place in (0, 1):
        _require(
            blocks[place] >= 0 and size[start + place] % max(blocks[place], 1) == 0,
            f"tensor shape[{start + place}] (={size[start + place]}) must be divisible with "
            f"blocksize[{place}] (={blocks[place]}) as defined by values shape",
        )
    inner = 2 if in_blocks(layout) else 0
    _require(
        tuple(values.shape[start + 1 + inner:]) == tuple(size[start + 2:]),
        f"the dense dimensions of values (={list(values.shape[start + 1 + inner:])}) must be those of "
        f"the size (={list(size[start + 2:])})",
    )
    grid = [size[start + place] // max(blocks[place], 1) for place in (0, 1)]
    groups, kind = grid[0 if rows else 1], "row" if rows else "column"
    kind += " blocks" if in_blocks(layout) else "s"
    _require(
        compressed.shape[-1] == groups + 1,
        f"{first}.shape[-1] must be equal to the number of {kind} + 1 (={groups + 1}), but got "
        f"{compressed.shape[-1]}",
    )
    _require(
        plain.shape[-1] == values.shape[start],
        f"{second}.shape[-1] must be equal to nnz (={values.shape[start]}) as defined by "
        f"values.shape[{start}], but got {plain.shape[-1]}",
    )
    return grid


def _check_places(compressed, plain, groups, width, rows):
    """That the numbers in the parts are in order."""
    first, second = _names(rows)
    counted, other = ("nrows", "ncols") if rows else ("ncols", "nrows")
    ends, steps = compressed.to(corten.int64), compressed.diff(dim=-1)
    _require(not ends[..., 0].any(), f"`{first}[..., 0] == 0` is not satisfied.")
    _require(
        not (ends[..., -1] != plain.shape[-1]).any(), f"`{first}[..., -1] == nnz` is not satisfied."
    )
    _require(
        not ((steps < 0) | (steps > width)).any(),
        f"`0 <= {first}[..., 1:] - {first}[..., :-1] <= {other}` is not satisfied.",
    )
    _require(
        not ((plain < 0) | (plain >= width)).any(), f"`0 <= {second} < {other}` is not satisfied."
    )
    # The row of an entry and its place in it, as one number, grow from entry to entry.
    counts = steps.reshape(-1).to(corten.int64)
    group = corten.arange(counts.numel(), device=counts.device).repeat_interleave(counts)
    flat = group * width + plain.reshape(-1)
    _require(
        not (flat.diff() <= 0).any(),
        f"`{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {counted} are "
        "sorted and distinct along the last dimension values` is not satisfied.",
    )


def _estimated(compressed, plain, values, layout):
    """The least size that these parts fit in."""
    first, second = _names(by_rows(layout))
    _require(
        compressed.dim() == plain.dim(),
        f"{first} and {second} dimensionalities must be equal but got {compressed.dim()} and "
        f"{plain.dim()}, respectively",
    )
    start, inner = compressed.dim() - 1, 2 if in_blocks(layout) else 0
    _require_entries(values, start, inner)
    blocks = tuple(values.shape[start + 1:start + 3]) if inner else (1, 1)
    groups = compressed.shape[-1] - 1
    width = int(plain.max()) + 1 if plain.numel() else 0
    rows, columns = (groups, width) if by_rows(layout) else (width, groups)
    dense = values.shape[start + 1 + inner:]
    return (*compressed.shape[:-1], rows * blocks[0], columns * blocks[1], *dense)


@as_operator
def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None,
    pin_memory=False, requires_grad=False, check_invariants=None,
):
    """A tensor of the entries ``values``, in one of the compressed layouts.

    ``compressed_indices`` says where rows (columns) end, ``plain_indices`` in which column (row) the
    entries are. Without ``size`` it is the least that they fit in.

    Raises:
        RuntimeError: Checks are asked for, and the parts do not fit together.
    """
    if layout not in LAYOUTS:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{NAMES.get(layout, 'none')}"
        )
    compressed = _part(compressed_indices, None, device)
    plain = _part(plain_indices, None, device)
    values = _part(values, dtype, device)
    if compressed.dim() == 0:
        _require(size is not None and not _checked(check_invariants),
                 f"{'crow' if by_rows(layout) else 'ccol'}_indices must have dimensionality >= 1 but "
                 "got 0")
    size = _estimated(compressed, plain, values, layout) if size is None else tuple(size)
    if _checked(check_invariants):
        check(compressed, plain, values, size, layout)
    made = assembled(values.detach() if requires_grad else values, compressed, plain, size, layout)
    return made.requires_grad_() if requires_grad else made


def _part(data, dtype, device):
    if isinstance(data, corten.Tensor):
        return data.to(device=device, dtype=dtype)
    return corten.tensor(data, dtype=dtype, device=device)


def _checked(wanted):
    from ._operators import check_sparse_tensor_invariants

    return check_sparse_tensor_invariants.is_enabled() if wanted is None else wanted


def _maker(layout, first, second):
    name = f"{word(layout)}_tensor"

    def make(compressed, plain, values, size=None, *, dtype=None, layout=layout, device=None,
             pin_memory=False, requires_grad=False, check_invariants=None):
        if layout is not None and layout != wanted:
            raise RuntimeError(
                f"{name}: layout must be {NAMES[wanted]} but got {NAMES.get(layout, layout)}"
            )
        return sparse_compressed_tensor(
            compressed, plain, values, size, dtype=dtype, layout=wanted, device=device,
            pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
        )

    wanted = layout
    return _with_names(make, name, first, second)


def _with_names(make, name, first, second):
    """The function under PyTorch's names of its arguments."""

    def function(*args, **kwargs):
        renamed = {{first: "compressed", second: "plain"}.get(key, key): value
                   for key, value in kwargs.items()}
        if len(args) + len({"compressed", "plain", "values"} & set(renamed)) < 3:
            kinds = ", ".join(type(arg).__name__ for arg in args)
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got ({kinds}), but expected "
                f"one of:\n * (object {first}, object {second}, object values, tuple of ints size, *, "
                "torch.dtype dtype, torch.layout layout, torch.device device, bool pin_memory, bool "
                "requires_grad, bool check_invariants)"
            )
        return make(*args, **renamed)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"A tensor of the entries ``values`` at ``{first}`` and ``{second}``, in the layout "
        f"{name.removesuffix('_tensor')}.\n\nRaises:\n    RuntimeError: Checks are asked for, and "
        "the parts do not fit together."
    )
    return as_operator(function)


sparse_csr_tensor = _maker(CSR, "crow_indices", "col_indices")
sparse_bsr_tensor = _maker(BSR, "crow_indices", "col_indices")
sparse_csc_tensor = _maker(CSC, "ccol_indices", "row_indices")
sparse_bsc_tensor = _maker(BSC, "ccol_indices", "row_indices")
