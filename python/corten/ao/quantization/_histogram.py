"""The observer that chooses limits by the squared error of quantised values."""

from __future__ import annotations

import struct
import warnings

import corten
from corten import nn

from ._ranges import iinfo, is_per_tensor
from .observer import _EPS, _INFINITE, UniformQuantizationObserverBase

#: By this fraction of all values the search for limits advances.
_STEP = 1e-5


def _single(value):
    """A number rounded to single precision."""
    return struct.unpack("f", struct.pack("f", value))[0]


def _third_moment(begin, end, density):
    """The integral of ``density * x**2`` from ``begin`` to ``end``."""
    return density * ((end * end * end - begin * begin * begin) / 3)


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts values in ``bins`` intervals and cuts the tails off as long as the error of quantisation falls.

    Example::

        >>> observer = HistogramObserver(bins=16)
        >>> _ = observer(torch.arange(16.0))
        >>> observer.calculate_qparams()
        (tensor([0.0588]), tensor([0], dtype=torch.int32))
    """

    def __init__(
        self, bins=2048, dtype=corten.quint8, qscheme=corten.per_tensor_affine, reduce_range=False,
        quant_min=None, quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs,
    ):
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric"
                "                     and torch.per_tensor_affine."
            )
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs
        )
        factory_kwargs = nn.factory_kwargs(factory_kwargs)
        self.bins = bins
        self.register_buffer("histogram", corten.zeros(bins, **factory_kwargs))
        self.register_buffer("min_val", corten.tensor(_INFINITE, **factory_kwargs))
        self.register_buffer("max_val", corten.tensor(-_INFINITE, **factory_kwargs))
        self.dst_nbins = 2 ** iinfo(dtype).bits
        self.upsample_rate = 16

    def _compute_quantization_error(self, next_start_bin, next_end_bin):
        """The squared error of all values if the bins from the first to the last are the range."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (next_end_bin - next_start_bin + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        device, half = self.histogram.device, step / 2
        begin = (corten.arange(self.bins, device=device) - next_start_bin) * width
        end = begin + width

        def step_of(values):
            return corten.clamp(corten.div(values, step, rounding_mode="floor"), 0, self.dst_nbins - 1)

        first, last = step_of(begin), step_of(end)
        density = self.histogram / width
        error = corten.zeros(self.bins, device=device)
        # From a bin's begin to the end of its first step, over whole steps, and on to its end in the last.
        error += _third_moment(
            begin - (first + 0.5) * step, corten.ones(self.bins, device=device) * half, density
        )
        error += (last - first - 1) * _third_moment(corten.tensor(-half), corten.tensor(half), density)
        error += _third_moment(corten.tensor(-half), end - (last * step + half), density)
        return error.sum().item()

    def _non_linear_param_search(self):
        """The limits: from both ends bins are left out where fewer values are, until the error grows."""
        if self.histogram.size()[0] != self.bins:
            raise AssertionError("bins mismatch")
        width = (self.max_val - self.min_val) / self.bins
        total = corten.sum(self.histogram).item()
        below = corten.cumsum(self.histogram, dim=0).tolist()
        alpha, beta, start, end = 0.0, 1.0, 0, self.bins - 1
        least = float("inf")
        while alpha < beta:
            next_alpha, next_beta = alpha + _STEP, beta - _STEP
            # Counts are of single precision, and what they are compared with is so, too.
            left_part, right_part = _single(next_alpha * total), _single(next_beta * total)
            left, right = start, end
            while left < end and below[left] < left_part:
                left += 1
            while right > start and below[right] > right_part:
                right -= 1
            next_start, next_end = start, end
            if left - start > end - right:
                next_start, alpha = left, next_alpha
            else:
                next_end, beta = right, next_beta
            if next_start == start and next_end == end:
                continue
            error = self._compute_quantization_error(next_start, next_end)
            if error > least:
                break
            least, start, end = error, next_start, next_end
        return self.min_val + width * start, self.min_val + width * (end + 1)

    def _upscale_histogram(self, histogram, orig_min, orig_max, update_min, update_max):
        """Counts in the intervals of new limits, from 16 parts of each interval of the old ones."""
        rate = self.upsample_rate
        parts = histogram.repeat_interleave(rate) / rate
        size = (orig_max - orig_min) / (self.bins * rate)
        ends = corten.linspace(orig_min, orig_max, self.bins * rate + 1, device=orig_min.device)
        middles = ends[:-1].to(histogram.device) + 0.5 * size
        boundaries = corten.linspace(update_min, update_max, self.bins + 1, device=update_min.device)
        bins = corten.bucketize(middles, boundaries.to(histogram.device), right=True) - 1
        bins = corten.clamp(bins, 0, self.bins - 1)
        return corten.bincount(bins, weights=parts, minlength=self.bins)

    def _combine_histograms(self, orig_hist, orig_min, orig_max, update_hist, update_min, update_max):
        """Both counts in the intervals of the second."""
        if update_min == orig_min and update_max == orig_max:
            return orig_hist + update_hist
        if orig_min == orig_max:
            # All values so far were the same.
            where = corten.histc(orig_min, bins=self.bins, min=update_min, max=update_max)
            return where * corten.sum(orig_hist) + update_hist
        if update_min > orig_min:
            raise AssertionError("update_min must be <= orig_min")
        if update_max < orig_max:
            raise AssertionError("update_max must be >= orig_max")
        return update_hist + self._upscale_histogram(orig_hist, orig_min, orig_max, update_min, update_max)

    def _store(self, **values):
        for name, value in values.items():
            buffer = getattr(self, name)
            buffer.detach_().resize_(value.shape)
            buffer.copy_(value)

    def reset_histogram(self, x, min_val, max_val):
        """Counts these values alone."""
        self._store(min_val=min_val, max_val=max_val)
        if min_val.numel() != 1 or max_val.numel() != 1:
            raise AssertionError("histogram min/max values must be scalar.")
        self._store(histogram=corten.histc(x, self.bins, min=min_val, max=max_val))

    def forward(self, x_orig):
        """Counts the input's values and returns it. Infinite ones are left out, with a warning."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = corten.aminmax(x)
        if low == -_INFINITE or high == _INFINITE:
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != _INFINITE]
            if x.numel() == 0:
                return x_orig
            low, high = corten.aminmax(x)
        old_low, old_high = self.min_val, self.max_val
        if old_low == _INFINITE or old_high == -_INFINITE:
            self.reset_histogram(x, low, high)
            return x_orig
        low, high = corten.min(old_low, low).detach(), corten.max(old_high, high).detach()
        update = corten.histc(x, self.bins, min=low, max=high).to(self.histogram.device)
        if low == old_low and high == old_high:
            self._store(histogram=self.histogram + update)
        else:
            combined = self._combine_histograms(self.histogram, old_low, old_high, update, low, high)
            self._store(histogram=combined, min_val=low, max_val=high)
        return x_orig

    def calculate_qparams(self):
        """Scale and zero point for the limits of least error."""
        if self.min_val == _INFINITE and self.max_val == -_INFINITE:
            warnings.warn(
                "must run observer before calling calculate_qparams.                                    "
                "Returning default scale and zero point ",
                stacklevel=2,
            )
            device = self.min_val.device.type
            return corten.tensor([1.0], device=device), corten.tensor([0], device=device)
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins supplied while "
                "making this observer"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("min_val", "max_val"):
            destination[prefix + name] = getattr(self, name)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version", None)
        for name, unseen in (("min_val", _INFINITE), ("max_val", -_INFINITE)):
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            # Before version 3 limits that were not observed yet were empty tensors.
            if (version is None or version < 3) and state_dict[key].shape == corten.Size([0]):
                state_dict[key] = corten.tensor(unseen)
            setattr(self, name, state_dict[key])
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def extra_repr(self):
        """The limits."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


HistogramObserver.__module__ = UniformQuantizationObserverBase.__module__
