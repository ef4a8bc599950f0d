"""mkldnn: the layout ``torch._mkldnn``, whose kernels are this library's own."""

from corten.backends._flags import Precision, flags_of

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"
matmul, conv, rnn = Precision(), Precision(), Precision()


def is_available():
    """Whether there are tensors of the layout."""
    return True


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision=None):
    """Sets what is not None, and returns what was set before."""
    given = {
        "enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32,
        "fp32_precision": _fp32_precision,
    }
    before = tuple(globals()[name] for name in given)
    globals().update({name: value for name, value in given.items() if value is not None})
    return before


flags = flags_of(
    globals(), enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"
)
