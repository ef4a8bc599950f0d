"""What functions that say how operators are written to ONNX are decorated with. They are kept for an exporter."""

from __future__ import annotations

__all__ = ["parse_args", "quantized_args"]


def _keeping(attribute):
    def decorator(*described, **options):
        def keep(function):
            setattr(function, attribute, (described, options))
            return function

        return keep

    return decorator


#: Says of what kind the arguments of the function are: ``"v"`` a value, ``"i"`` a number, ``"f"`` ….
parse_args = _keeping("_arg_descriptors")
#: Says which arguments of the function may be quantized.
quantized_args = _keeping("_quantized_args")
