"""Quantization: modules (``nn``), and observers, configurations and conversions (``quantization``)."""

__all__ = ["nn", "quantization"]


def __getattr__(name):
    if name in __all__:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
