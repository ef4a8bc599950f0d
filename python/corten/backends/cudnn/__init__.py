"""cuDNN: absent; its settings are kept, since programs set them before they look."""

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10
fp32_precision = "none"


def is_available():
    """Whether the library can be used."""
    return False


def version():
    """Its version."""
    return None


def is_acceptable(tensor):
    """Whether it could compute with a tensor."""
    return False


class flags:
    """Sets the settings for a ``with`` block."""

    def __init__(self, enabled=False, benchmark=False, benchmark_limit=10, deterministic=False,
                 allow_tf32=True, fp32_precision="none"):
        self.values = {
            "enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
            "deterministic": deterministic, "allow_tf32": allow_tf32,
            "fp32_precision": fp32_precision,
        }

    def __enter__(self):
        names = globals()
        self.before = {name: names[name] for name in self.values}
        names.update(self.values)

    def __exit__(self, kind, value, traceback):
        globals().update(self.before)
