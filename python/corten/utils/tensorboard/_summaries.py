"""Values as TensorBoard's plugins want them: arguments of Python, which are encoded natively."""

from __future__ import annotations

import corten
from corten import _C


def number(value):
    """A number out of a number, tensor or array of one element."""
    if hasattr(value, "item"):
        if getattr(value, "numel", None) and value.numel() != 1:
            raise AssertionError("scalar should be 0D")
        return float(value.item())
    return float(value)


def tensor(values):
    """A tensor out of a tensor, array or list."""
    found = values if isinstance(values, corten.Tensor) else corten.as_tensor(values)
    return found.detach().cpu()


def scalar(tag, x, new_style=False, double_precision=False):
    """A number; of the new style as a tensor."""
    if not new_style and not double_precision:
        return _C._summary_scalar(tag, number(x))
    return _C._summary_scalar_tensor(tag, number(x), double_precision)


def text(tag, string):
    """A text."""
    return _C._summary_text(tag, string)


def histogram(tag, values, bins, max_bins=None):
    """How often values fall between edges; ``bins`` as NumPy's, or ``tensorflow``."""
    values = tensor(values).double().reshape(-1)
    if bins == "tensorflow":
        return _C._summary_histogram(tag, values, None, max_bins)
    import numpy

    edges = numpy.histogram_bin_edges(values.numpy(), bins=bins)
    return _C._summary_histogram(tag, values, edges.tolist(), max_bins)


def raw_histogram(tag, low, high, count, total, squares, limits, counts):
    """A histogram that was computed already."""
    return _C._summary_raw_histogram(tag, (low, high, count, total, squares), limits, counts)


def image(tag, images, dataformats):
    """An image of bytes, or of floating-point numbers from 0 to 1; batches side by side in a grid."""
    images = tensor(images)
    if images.dim() != len(dataformats):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: "
            f"{tuple(images.shape)}, input_format: {dataformats}"
        )
    return _C._summary_image(tag, images, dataformats)


def audio(tag, sound, sample_rate):
    """Samples from -1 to 1 as a WAV file."""
    return _C._summary_audio(tag, tensor(sound), int(sample_rate))


def pr_curve(tag, labels, predictions, num_thresholds, weights=None):
    """Precision and recall over thresholds."""
    weights = None if weights is None else tensor(weights)
    return _C._summary_pr_curve(tag, tensor(labels), tensor(predictions), num_thresholds, weights)


def _item(x):
    if hasattr(x, "item"):
        x = x.item()
    if not isinstance(x, (bool, int, float, str)):
        raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
    return x


def hyperparameters(hparams, metrics, domains=None):
    """The three summaries of a run: what there is, how it started, how it ended."""
    if not isinstance(hparams, dict) or not isinstance(metrics, dict):
        raise TypeError("parameters `hparam_dict` and `metric_dict` must be dictionaries")
    parameters = {name: _item(x) for name, x in hparams.items() if x is not None}
    listed = {name: [_item(x) for x in values] for name, values in (domains or {}).items()}
    return _C._summary_hyperparameters(parameters, list(metrics), listed)
