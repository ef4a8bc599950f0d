"""Sequences of different lengths, padded or packed."""

from __future__ import annotations

from collections import namedtuple

import corten

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]

_Fields = namedtuple("PackedSequence", ("data", "batch_sizes", "sorted_indices", "unsorted_indices"))


def invert_permutation(permutation):
    """The permutation that undoes ``permutation``."""
    if permutation is None:
        return None
    inverse = corten.empty_like(permutation)
    inverse.scatter_(0, permutation, corten.arange(0, permutation.numel(), device=permutation.device))
    return inverse


class PackedSequence(_Fields):
    """Sequences of different lengths, step by step: the first elements of all, then the second, …

    ``batch_sizes`` says how many sequences reach each step.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("expected a pair of data and batch_sizes")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The sequence with data (and indices, for a device) converted."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        move = {"device": data.device}
        indices = (
            None if index is None else index.to(**move)
            for index in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self):
        """``to("cpu")``."""
        return self.to("cpu")

    def cuda(self, device="cuda"):
        """``to("cuda")``."""
        return self.to(device)

    def double(self):
        """``to(float64)``."""
        return self.to(dtype=corten.float64)

    def float(self):
        """``to(float32)``."""
        return self.to(dtype=corten.float32)

    def half(self):
        """``to(float16)``."""
        return self.to(dtype=corten.float16)

    def long(self):
        """``to(int64)``."""
        return self.to(dtype=corten.int64)

    def int(self):
        """``to(int32)``."""
        return self.to(dtype=corten.int32)

    def short(self):
        """``to(int16)``."""
        return self.to(dtype=corten.int16)

    def char(self):
        """``to(int8)``."""
        return self.to(dtype=corten.int8)

    def byte(self):
        """``to(uint8)``."""
        return self.to(dtype=corten.uint8)

    def pin_memory(self):
        """The sequence with data in pinned memory."""
        return type(self)(
            self.data.pin_memory(), self.batch_sizes, self.sorted_indices, self.unsorted_indices
        )

    def is_pinned(self):
        """Whether the data are in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self):
        """Whether the data are on a GPU."""
        return self.data.is_cuda


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs a padded (length, batch, …) tensor whose columns have ``lengths``."""
    lengths = corten.as_tensor(lengths, dtype=corten.int64, device="cpu")
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D cpu Long tensor"
        )
    order = None
    if not enforce_sorted:
        lengths, order = corten.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    counts = lengths.tolist()
    _check_lengths(counts, input)
    batch_sizes = _batch_sizes(counts)
    pieces = [input[step, :size] for step, size in enumerate(batch_sizes)]
    sizes = corten.tensor(batch_sizes, dtype=corten.int64)
    return PackedSequence(corten.cat(pieces), sizes, order, None)


def _check_lengths(counts, input):
    if input.dim() < 2 or len(counts) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
            f"(batch_size={input.size(1)})"
        )
    if counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in zip(counts, counts[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if counts[0] > input.size(0):
        raise RuntimeError(
            f"Expected `lengths` to be at most {input.size(0)}, but got {counts[0]}"
        )


def _batch_sizes(counts):
    """How many of the (descending) lengths reach each step."""
    sizes, alive = [], len(counts)
    for step in range(counts[0]):
        while counts[alive - 1] <= step:
            alive -= 1
        sizes.append(alive)
    return sizes


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded tensor of a packed sequence, and the lengths."""
    sizes = sequence.batch_sizes.tolist()
    steps, batch = len(sizes), sizes[0]
    length = steps
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {steps}"
            )
        length = total_length
    rest = sequence.data.shape[1:]
    rows = []
    for piece in sequence.data.split(sizes):
        missing = batch - piece.size(0)
        if missing:
            fill = piece.new_full((missing, *rest), padding_value)
            piece = corten.cat([piece, fill])
        rows.append(piece)
    padded = corten.stack(rows)
    if length > steps:
        fill = padded.new_full((length - steps, batch, *rest), padding_value)
        padded = corten.cat([padded, fill])
    lengths = corten.tensor([sum(size > i for size in sizes) for i in range(batch)])
    if batch_first:
        padded = padded.transpose(0, 1)
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks tensors of different lengths, filled up with ``padding_value``."""
    if isinstance(sequences, corten.Tensor):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, (list, tuple)):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    length = max(sequence.size(0) for sequence in sequences)
    shape = (len(sequences), length, *sequences[0].shape[1:])
    padded = sequences[0].new_full(shape, padding_value)
    for i, sequence in enumerate(sequences):
        n = sequence.size(0)
        start = 0 if padding_side == "right" else length - n
        padded[i, start:start + n] = sequence
    return padded if batch_first else padded.transpose(0, 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The tensors that :func:`pad_sequence` stacked."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(padded_sequences, lengths.tolist())]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs tensors of different lengths."""
    lengths = corten.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors that :func:`pack_sequence` packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
