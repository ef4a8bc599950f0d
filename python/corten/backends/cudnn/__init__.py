"""cuDNN: absent; its settings are kept, since programs set them before they look."""

from corten.backends._flags import Precision, flags_of

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10
fp32_precision = "none"
conv, rnn = Precision(), Precision()


def is_available():
    """Whether the library can be used."""
    return False


def version():
    """Its version."""
    return None


def is_acceptable(tensor):
    """Whether it could compute with a tensor."""
    return False


flags = flags_of(
    globals(), enabled=False, benchmark=False, benchmark_limit=10, deterministic=False,
    allow_tf32=True, fp32_precision="none",
)
