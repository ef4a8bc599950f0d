"""Attention whose scores a function of the program changes, or masks."""

from __future__ import annotations

import math
from typing import NamedTuple

import corten

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]


class AuxRequest(NamedTuple):
    """What else :func:`flex_attention` shall return."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The logarithm of each query's sum of exponentials, and its greatest score."""

    lse: corten.Tensor | None = None
    max_scores: corten.Tensor | None = None


def noop_mask(batch, head, token_q, token_kv):
    """Keeps every score."""
    return batch.new_ones((), dtype=corten.bool)


def or_masks(*mask_mods):
    """Keeps what some of the masks keeps."""
    return _joined(mask_mods, lambda a, b: a | b, False)


def and_masks(*mask_mods):
    """Keeps what all the masks keep."""
    return _joined(mask_mods, lambda a, b: a & b, True)


def _joined(mask_mods, join, start):
    if not all(callable(mask_mod) for mask_mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=corten.bool)
        for one in mask_mods:
            result = join(result, one(b, h, q_idx, kv_idx))
        return result

    return mask_mod


def _places(shape, device):
    """The four places of every score, each along its own dimension, so that they broadcast."""
    for dim, size in enumerate(shape):
        place = corten.arange(size, dtype=corten.int32, device=device)
        yield place.view([size if other == dim else 1 for other in range(4)])


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """Which scores ``mod_fn`` keeps: a bool tensor of shape (B, H, Q_LEN, KV_LEN)."""
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    kept = mod_fn(*_places(shape, corten.get_default_device() if device is None else device))
    return kept.expand(shape)


class BlockMask:
    """A mask, and which blocks of scores it keeps in part or as a whole. The index tensors list the
    blocks of each row (of each column for ``q_…``), those that count first."""

    _PARTS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
              "q_indices", "full_q_num_blocks", "full_q_indices")

    def __init__(self, parts, BLOCK_SIZE, mask_mod, seq_lengths):
        for name, part in zip(self._PARTS, parts, strict=True):
            setattr(self, name, part)
        self.BLOCK_SIZE, self.mask_mod, self.seq_lengths = BLOCK_SIZE, mask_mod, seq_lengths

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
        BLOCK_SIZE=128, mask_mod=None, seq_lengths=None, compute_q_blocks=True, *,
        dq_write_order=None, dq_write_order_full=None, dq_kv_order=None,
    ):
        """A mask of the blocks of each row that it keeps in part, and of those that it keeps as a whole.

        Raises:
            RuntimeError: The indices have no rows.
            AssertionError: Only one of the tensors of whole blocks is given.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = kv_indices.size(-2) * rows, kv_indices.size(-1) * columns
        parts = [kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices]
        for counts, places in ((kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices)):
            if counts is None or not compute_q_blocks:
                parts += None, None
            else:
                parts += _listed(_kept(counts, places).mT)
        return cls(parts, (rows, columns), noop_mask if mask_mod is None else mask_mod, seq_lengths)

    def _changed(self, change):
        parts = (getattr(self, name) for name in self._PARTS)
        parts = [None if part is None else change(part) for part in parts]
        return BlockMask(parts, self.BLOCK_SIZE, self.mask_mod, self.seq_lengths)

    @property
    def shape(self):
        """The shape of the scores."""
        return (*self.kv_num_blocks.shape[:-1], *self.seq_lengths)

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        return self._changed(lambda part: part[kept])

    def to(self, device):
        """The same on another device."""
        return self._changed(lambda part: part.to(device))

    def numel(self):
        """How many scores there are."""
        return math.prod(self.shape)

    def to_dense(self):
        """1 for each block that is kept in part or as a whole."""
        dense = corten.zeros_like(self.kv_indices)
        for count, places in ((self.kv_num_blocks, self.kv_indices),
                              (self.full_kv_num_blocks, self.full_kv_indices)):
            if count is not None:
                dense = dense + _kept(count, places)
        return dense

    def sparsity(self):
        """How many percent of the blocks are left out."""
        dense = self.to_dense()
        return 100 * (1 - dense.sum().item() / dense.numel())

    def __repr__(self):
        given = {name: getattr(self, name) for name in self._PARTS}
        parts = "".join(f"    {n}={x if x is None else x.shape},\n" for n, x in given.items())
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        return (f"BlockMask(\n{parts}    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n"
                f"    sparsity={self.sparsity():.2f}%,\n    mask_mod={name}\n)")


def _kept(count, places):
    """1 for each block that is listed."""
    listed = corten.arange(places.size(-1), device=places.device) < count[..., None]
    return corten.zeros_like(places).scatter(-1, places.long(), listed.to(places.dtype))


def _listed(blocks):
    """How many blocks of each row there are, and all of them, those first."""
    blocks = blocks.to(corten.int32)
    order = corten.argsort(blocks, dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=corten.int32), order.to(corten.int32)


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128, _compile=False,
                      separate_full_blocks=True, compute_dq_write_order=False, dq_kv_order=True):
    """The :class:`BlockMask` of a function of (batch, head, query, key) that says what is kept."""
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = corten.nn.functional.pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    split = mask.unflatten(-1, (-1, columns)).unflatten(2, (-1, rows))
    counts = split.sum((3, 5))
    full = (counts == rows * columns) & separate_full_blocks
    part = (counts > 0) & ~full
    parts = [x for blocks in (part, full, part.mT, full.mT) for x in _listed(blocks)]
    return BlockMask(parts, (rows, columns), mask_mod, (Q_LEN, KV_LEN))


def _check(query, key, value, block_mask, enable_gqa):
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, theirs = query.size(1), key.size(1)
    if not enable_gqa and heads != theirs:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={theirs}. Try setting enable_gqa=True for GQA."
        )
    if heads % theirs:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={theirs}."
        )
    lengths = query.size(2), key.size(2)
    if block_mask is None or tuple(block_mask.seq_lengths) == lengths:
        return
    if any(given < wanted for given, wanted in zip(block_mask.seq_lengths, lengths)):
        raise ValueError(
            f"block_mask was created for shape {block_mask.shape}, but the lengths are {lengths}: "
            "it is for a smaller length than you're using it for; create a new block mask"
        )
    raise RuntimeError(
        f"block_mask was created for a larger length than you're using it for: {block_mask.shape}, "
        f"but the lengths are {lengths}; create a new block mask"
    )


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False,
                   return_lse=False, kernel_options=None, *, return_aux=None):
    """``softmax(score_mod(query @ key.T * scale)) @ value``, of what ``block_mask`` keeps.

    ``score_mod(score, batch, head, query, key)`` is called once, with tensors that broadcast. A
    query of which nothing is kept gives zeros.
    """
    _check(query, key, value, block_mask, enable_gqa)
    if key.size(1) != query.size(1):
        repeats = query.size(1) // key.size(1)
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    exact = corten.float64 if query.dtype == corten.float64 else corten.float32
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = query.to(exact) @ key.to(exact).mT * scale
    places = tuple(_places(scores.shape, scores.device))
    if score_mod is not None:
        scores = score_mod(scores, *places).to(exact)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.mask_mod(*places), -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = corten.softmax(scores, -1).masked_fill(empty, 0)
    result = (weights @ value.to(exact)).to(query.dtype)
    if return_lse:
        return result, scores.logsumexp(-1)
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return result, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return result
