"""Modules for quantization: fused, observed, in training and quantized."""

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "sparse"]


def __getattr__(name):
    if name in __all__:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
