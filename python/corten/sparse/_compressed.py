"""``CompressedTensor``: sparse rows or columns of numbers or blocks.

It is a tensor without memory of its own. Its parts are the ends of its rows (or columns), the
places of the entries in them, and the entries. Two functions with derivatives, :func:`values_of` and
:func:`assembled`, lead from the whole to the entries and back: all operators are dense ones between.
"""

from __future__ import annotations

import math

import corten
from corten import _C
from corten._C import Tensor

from ._entries import State, _C_plain, dispatched, enabled, lacks_data

CSR, CSC, BSR, BSC = _C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc
LAYOUTS = (CSR, CSC, BSR, BSC)
#: Names of layouts in messages.
NAMES = {
    CSR: "SparseCsr", CSC: "SparseCsc", BSR: "SparseBsr", BSC: "SparseBsc",
    _C.sparse_coo: "Sparse", _C.strided: "Strided",
}
#: The operators of compressed tensors by name, filled by the modules that define them.
OPERATORS = {}
_ASKED_OF_SHELL = frozenset((
    "shape", "dtype", "ndim", "grad_fn", "is_leaf", "grad", "is_quantized", "requires_grad", "device",
    "_version", "output_nr", "names", "is_meta", "is_cuda", "is_cpu", "itemsize", "nbytes",
    "retains_grad", "_grad", "_base",
))


def word(layout):
    """``sparse_csr`` for ``torch.sparse_csr``."""
    return str(layout).split(".")[-1]


def by_rows(layout):
    """Whether a layout compresses rows, not columns."""
    return layout in (CSR, BSR)


def in_blocks(layout):
    """Whether the entries of a layout are blocks."""
    return layout in (BSR, BSC)


class CompressedTensor(Tensor):
    """A tensor in one of the layouts ``sparse_csr``, ``sparse_csc``, ``sparse_bsr``, ``sparse_bsc``.

    Its shape is batches, rows, columns, dense dimensions. The ends of the rows are of shape
    ``(*batches, rows + 1)``, the places of entries of shape ``(*batches, entries)``, and the entries
    of shape ``(*batches, entries, *block, *dense dimensions)``.
    """

    _of_parts = True

    @property
    def layout(self):
        """Which of the four layouts it has."""
        return self._kind

    @property
    def is_sparse_csr(self):
        """Whether rows of numbers are compressed."""
        return self._kind == CSR

    @property
    def mT(self):  # noqa: N802
        """The transposed matrices."""
        return self.transpose(-2, -1)

    @property
    def mH(self):  # noqa: N802
        """The transposed matrices, conjugated."""
        return self.transpose(-2, -1).conj()

    @property
    def T(self):  # noqa: N802
        """Refused, as by PyTorch: ``t()`` transposes."""
        raise NotImplementedError(
            "Could not run 'aten::as_strided' with arguments from the 'SparseCsrCPU' backend."
        )

    H = T

    @property
    def data(self):
        """The same entries without history."""
        return self.detach()

    @data.setter
    def data(self, other):
        if not isinstance(other, CompressedTensor) or other.shape != self.shape:
            raise RuntimeError(
                "Attempted to set the data of a sparse compressed tensor to a tensor of an "
                "incompatible type or size"
            )
        self._parts, self._kind = other._parts, other._kind

    def __repr__(self, *, tensor_contents=None):
        from ._printing import described

        return described(self)

    __hash__ = Tensor.__hash__

    def _state(self):
        return State(self._parts), tuple(self.shape), self._kind

    def _as_it_was(self, state):
        return shell(*state[0].parts, *state[1:]) if state[0].unwritten() else None

    def __reduce_ex__(self, protocol):
        from corten import _utils

        return _utils.reduce_tensor(self)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            return Tensor.__deepcopy__(self, memo)  # refuses
        if id(self) not in memo:
            copied = self.detach().clone()
            memo[id(self)] = copied.requires_grad_() if self.requires_grad else copied
            if "_is_param" in self.__dict__:
                copied._is_param = True
        return memo[id(self)]

    def __len__(self):
        return self.shape[0]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        kwargs = kwargs or {}
        if name in ("__get__", "__set__"):
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name in _ASKED_OF_SHELL:
                with _C_plain():
                    return func(*args, **kwargs)
        if name.startswith("__"):
            name = name.strip("_")
        if name == "grad":
            with _C_plain():
                return func(*args, **kwargs)
        made = dispatched(func, name, args, kwargs)
        if made is not NotImplemented:
            return made
        found = OPERATORS.get(name)
        if found is None:
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the 'SparseCsrCPU' backend."
            )
        return found(*args, **kwargs)


def shell(compressed, plain, values, size, layout):
    """A tensor of these parts, without history and without checks."""
    with _C_plain():
        made = Tensor._make_shell(
            CompressedTensor, tuple(size), dtype=values.dtype, layout=CSR, device=values.device
        )
    values = values.detach() if values.requires_grad else values
    made._parts, made._kind = (compressed, plain, values), layout
    return made


class SparseCompressedTensor(corten.autograd.Function):
    """The entries put together to a tensor."""

    @staticmethod
    def forward(ctx, values, compressed, plain, size, layout):
        made = shell(compressed, plain, values, size, layout)
        ctx.pattern = made
        return made

    @staticmethod
    @enabled
    def backward(ctx, grad):
        return entries_at(grad, ctx.pattern), None, None, None, None


class Values(corten.autograd.Function):
    """The entries of a tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.pattern = x.detach()
        return x._parts[2].detach()

    @staticmethod
    @enabled
    def backward(ctx, grad):
        return like(ctx.pattern, grad)


def assembled(values, compressed, plain, size, layout):
    """A tensor of its parts, through which gradients reach the entries."""
    if values.requires_grad and corten.is_grad_enabled():
        return SparseCompressedTensor.apply(values, compressed, plain, tuple(size), layout)
    return shell(compressed, plain, values, size, layout)


def like(pattern, values):
    """Other entries at the places of a tensor."""
    compressed, plain, _ = pattern._parts
    return assembled(values, compressed, plain, pattern.shape, pattern._kind)


def values_of(x):
    """The entries of a tensor, as a view of them; gradients flow through it."""
    if x.requires_grad and corten.is_grad_enabled():
        return Values.apply(x)
    return x._parts[2]


def entries_at(x, pattern):
    """The elements of a dense or compressed tensor at the places of another one."""
    if isinstance(x, CompressedTensor):
        if x._kind == pattern._kind and same_places(x, pattern):
            return values_of(x)
        x = dense_of(x)
    elif x.layout != _C.strided:
        x = x.to_dense()
    found = tiles(x, pattern.block(), pattern.batches())[coordinates(pattern)]
    return found.reshape(pattern._parts[2].shape)


def same_places(a, b):
    """Whether the entries of two tensors are at the same places."""
    return all(
        mine is theirs or mine.shape == theirs.shape and (mine.is_meta or bool((mine == theirs).all()))
        for mine, theirs in zip(a._parts[:2], b._parts[:2])
    )


def batches(x):
    """The shape of the batches."""
    return tuple(x._parts[0].shape[:-1])


def block(x):
    """The shape of the blocks: one by one where entries are numbers."""
    if not in_blocks(x._kind):
        return 1, 1
    start = x._parts[0].dim()
    return tuple(x._parts[2].shape[start:start + 2])


CompressedTensor.batches, CompressedTensor.block = batches, block


def coordinates(x):
    """Three numbers for every entry: of its batch, its row and its column, of blocks."""
    compressed, plain, _ = x._parts
    groups = max(compressed.size(-1) - 1, 0)
    counts = compressed.diff(dim=-1).reshape(-1).to(corten.int64)
    total = plain.numel() if lacks_data(counts) else None
    group = corten.arange(counts.numel(), device=counts.device).repeat_interleave(counts, output_size=total)
    plain = plain.reshape(-1).to(corten.int64)
    if group.numel() != plain.numel():
        name = "crow_indices" if by_rows(x._kind) else "ccol_indices"
        raise RuntimeError(f"`{name}[..., -1] == nnz` is not satisfied.")
    batch, along = group.div(max(groups, 1), rounding_mode="floor"), group % max(groups, 1)
    return (batch, along, plain) if by_rows(x._kind) else (batch, plain, along)


def tiles(dense, block, batches):
    """A dense tensor as blocks: ``(batches, rows, columns, *block, *dense dimensions)``."""
    start = len(batches)
    rows, columns, *rest = dense.shape[start:]
    height, width = block
    split = (math.prod(batches), rows // height, height, columns // width, width, *rest)
    return dense.reshape(split).transpose(2, 3)


def dense_of(x):
    """The dense tensor; entries at the same place are added up."""
    values, size, (height, width) = values_of(x), tuple(x.shape), block(x)
    start = len(batches(x))
    rows, columns, *rest = size[start:]
    tiled = (math.prod(size[:start]), rows // height, columns // width, height, width, *rest)
    entries = values.reshape(math.prod(values.shape[:start + 1]), height, width, *rest)
    made = values.new_zeros(tiled).index_put(
        coordinates(x), entries, accumulate=values.dtype != corten.bool
    )
    return made.transpose(2, 3).reshape(size)
