"""``corten.quantize_weights``: the weights of any model as blocks of few bits, without changing its modules."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import corten

from . import _blocks, _files

__all__ = ["QuantizedWeight", "WeightReport", "quantize_weights"]

#: Rows of activations that are timed: one token, a few, and a prompt.
_ROWS = (1, 4, 16, 64, 256)
#: Products of one timing at most, and rows of a weight that are timed: taller ones cost as much for each row.
_MOST_PRODUCTS, _MOST_FEATURES = 1 << 30, 4096
#: Seconds that one side of a comparison runs at least, and repetitions.
_LEAST_SECONDS, _REPETITIONS = 4e-4, 5
#: What counts as slower: timings vary by this much.
_TOLERANCE = 1.1


@dataclass
class QuantizedWeight:
    """What became of one weight.

    Attributes:
        name: Its first name in the model.
        shape: Its shape.
        format: The block format, or None where it is kept as it was.
        reason: Why it is kept, or why it has another format than the one asked for; may be empty.
        rms: The root of the mean squared error over that of the squares.
        largest: The largest error.
        nbytes: Its bytes before and after.
        speed: How many times as fast as before a linear map is, by rows of activations.
    """

    name: str
    shape: tuple
    format: str | None = None
    reason: str = ""
    rms: float = 0.0
    largest: float = 0.0
    nbytes: tuple = (0, 0)
    speed: dict = field(default_factory=dict)


class WeightReport(list):
    """A :class:`QuantizedWeight` for each weight; printed, a line for each."""

    @property
    def quantized(self):
        """Those that became blocks."""
        return [weight for weight in self if weight.format is not None]

    @property
    def kept(self):
        """Those that are as they were."""
        return [weight for weight in self if weight.format is None]

    def __str__(self):
        lines = [
            f"{each.name}  {each.shape}  {each.format or 'kept'}"
            + (f"  rms {each.rms:.5f}  max {each.largest:.4g}" if each.format else "")
            + (f"  ({each.reason})" if each.reason else "")
            for each in self
        ]
        before, after = (sum(each.nbytes[i] for each in self) for i in (0, 1))
        lines.append(
            f"{len(self.quantized)} of {len(self)} weights quantized, {_files.size(before)} -> {_files.size(after)}"
        )
        return "\n".join(lines)

    __repr__ = __str__


@dataclass
class _Use:
    """A weight and the modules that have it."""

    parameter: corten.Tensor
    places: list
    kinds: set

    @property
    def name(self):
        """Its first name."""
        return self.places[0][0]


def quantize_weights(model, format="q8_0", *, include=None, exclude=None, measure=True):
    """Replaces the weights of linear maps and embeddings by block-quantised ones, in place.

    Modules stay what they are: ``Linear``, ``Embedding`` and the ``Conv1D`` of transformers multiply by the new weights
    without dequantising them. A weight is left as it was where its rows are no whole blocks, where a module writes to
    it, or where products by its blocks were slower than before at one of some numbers of rows; the report says which,
    and a warning that some were slower.

    Args:
        model: Any module; its weights are on the CPU.
        format: The name of a block format, such as ``"q8_0"`` or ``"q4_k"``. Rows that are no whole blocks of 256
            get a format of 32.
        include: Patterns, as ``"*.mlp.*"``: only weights of modules whose names match one.
        exclude: Patterns of modules that keep their weights.
        measure: Whether products are timed before a weight is replaced.

    Returns:
        A :class:`WeightReport`.
    """
    name = _blocks.format_name(format)
    patterns = [[each] if isinstance(each, str) else list(each or ()) for each in (include, exclude)]
    report, timings = WeightReport(), {}
    for use in _uses(model, *patterns):
        report.append(_replace(use, name, timings if measure else None))
    slower = [each for each in report if "slower" in each.reason and each.format is None]
    if slower:
        warnings.warn(
            f"{len(slower)} of {len(report)} weights stay as they are, since products by blocks of {name} were slower: "
            f"{', '.join(each.name for each in slower[:3])}{', ...' if len(slower) > 3 else ''}",
            UserWarning, stacklevel=2,
        )
    return report


def _kind(module):
    """``linear``, ``embedding`` or ``transposed``; None for modules of other kinds."""
    if isinstance(module, corten.nn.Linear):
        return "linear"
    if isinstance(module, corten.nn.Embedding):
        return "embedding"
    return "transposed" if type(module).__name__ == "Conv1D" and hasattr(module, "nf") else None


def _uses(model, include, exclude):
    """The weights that may be replaced; one that several modules share is one."""
    found, refused = {}, set()
    for name, module in model.named_modules():
        kind, weight = _kind(module), module._parameters.get("weight")
        if weight is None or weight.dim() != 2 or weight.block_format is not None:
            continue
        is_chosen = not include or any(fnmatchcase(name, pattern) for pattern in include)
        if kind is None or not is_chosen or any(fnmatchcase(name, pattern) for pattern in exclude):
            refused.add(id(weight))
            continue
        use = found.setdefault(id(weight), _Use(weight, [], set()))
        use.places.append((f"{name}.weight".lstrip("."), module))
        use.kinds.add(kind)
    return [use for key, use in found.items() if key not in refused]


def _why_not(use):
    """Why a weight cannot be replaced; empty where it can."""
    weight = use.parameter
    if not weight.is_floating_point() or weight.layout != corten.strided or weight.device.type != "cpu":
        return f"{weight.dtype} on {weight.device}"
    if "embedding" in use.kinds:
        if any(getattr(module, "max_norm", None) is not None for _, module in use.places):
            return "the module writes to it"
        if weight.dtype != corten.float32:
            return f"rows of blocks are float32, not {weight.dtype}"
    if "transposed" in use.kinds and len(use.kinds) > 1:
        return "modules of different kinds share it"
    return ""


def _replace(use, name, timings):
    """Replaces a weight, or says why not."""
    weight = use.parameter.detach()
    nbytes = weight.numel() * weight.element_size()
    said = QuantizedWeight(use.name, tuple(weight.shape), None, _why_not(use), nbytes=(nbytes, nbytes))
    if said.reason:
        return said
    rows = weight.t() if "transposed" in use.kinds else weight
    fitting = _blocks.fitting_format(name, rows.shape[-1])
    if fitting is None:
        said.reason = f"rows of {rows.shape[-1]} elements are no whole blocks"
        return said
    if timings is not None and not _is_as_fast(rows, fitting, use.kinds, timings, said):
        return said
    made = _blocks.quantize_blocks(rows, fitting)
    largest, squared, squares = _blocks.error_of(made, rows)
    said.format, said.rms, said.largest = fitting, _blocks.relative(squared, squares), largest
    said.nbytes = (nbytes, _files.nbytes_of(made))
    if fitting != name:
        said.reason = f"rows of {rows.shape[-1]} elements are no whole blocks of {name}"
    made = made.t() if "transposed" in use.kinds else made
    parameter = corten.nn.Parameter(made, requires_grad=False)
    for _, module in use.places:
        module.weight = parameter
    return said


def _is_as_fast(rows, name, kinds, timings, said):
    """Whether no product and no look-up is slower by blocks; notes how fast they are."""
    sample = rows[:_MOST_FEATURES]
    key = (tuple(sample.shape), sample.dtype, name, "linear" in kinds or "transposed" in kinds, "embedding" in kinds)
    if key not in timings:
        timings[key] = _speeds(sample.contiguous(), name, kinds)
    said.speed = timings[key]
    slow = {count: speed for count, speed in said.speed.items() if speed * _TOLERANCE < 1}
    if slow:
        what = ", ".join(f"{speed:.2f}x at {count}" for count, speed in slow.items())
        said.reason = f"slower by blocks: {what} rows"
    return not slow


def _speeds(dense, name, kinds):
    """How many times as fast blocks are, by rows of activations."""
    blocks, found = _blocks.quantize_blocks(dense, name), {}
    features, columns = dense.shape
    with corten.no_grad():
        for count in _ROWS:
            if kinds - {"embedding"} and count * features * columns <= _MOST_PRODUCTS:
                x = corten.ones(count, columns, dtype=dense.dtype)
                found[count] = _ratio(lambda w: corten.nn.functional.linear(x, w), dense, blocks)  # noqa: B023
            if "embedding" in kinds:
                places = corten.arange(count) * 7919 % features
                speed = _ratio(lambda w: corten.nn.functional.embedding(places, w), dense, blocks)  # noqa: B023
                # A look-up is a small part of a step: only much slower ones are felt.
                found[count] = min(found.get(count, 1.0), max(speed, 1.0) if speed > 0.2 else speed)
    return found


def _ratio(function, before, after):
    """The time of a call with one argument over that with another one, the shortest of some."""
    calls = 1
    while (seconds := _timed(function, before, calls)) < _LEAST_SECONDS:
        calls = max(2 * calls, int(calls * _LEAST_SECONDS / max(seconds, 1e-9)))
    _timed(function, after, 1)
    best = [float("inf"), float("inf")]
    for _ in range(_REPETITIONS):
        for side, weight in enumerate((before, after)):
            best[side] = min(best[side], _timed(function, weight, calls))
    return best[0] / best[1]


def _timed(function, weight, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function(weight)
    return time.perf_counter() - start
