"""Translations of the caller: of ``custom_translation_table``, and those registered for operators by name."""

from __future__ import annotations

from corten.onnx._graph import Value, element_type
from corten.onnx._lowering import label_of
from corten.onnx.errors import OnnxExporterError

#: Translations by the names of operators and versions of ONNX's operators.
REGISTERED = {}


class SymbolicGraph:
    """What registered translations are given first: ``g.op("Relu", x)`` calls an operator of ONNX,
    ``g.op("domain::Name", x, alpha_f=0.5)`` one of another domain. The end of an attribute's name says what it is:
    ``_i`` a whole number, ``_f`` a number, ``_s`` a text, ``_t`` a tensor."""

    def __init__(self, builder):
        self.builder, self.opset = builder, builder.opset

    def op(self, name, *inputs, outputs=1, **attributes):
        domain, _, op_type = name.rpartition("::")
        domain = "" if domain in ("onnx", "ai.onnx") else domain
        named = {key[:-2] if key[-2:] in ("_i", "_f", "_s", "_t", "_g") else key: _attribute(key, part)
                 for key, part in attributes.items()}
        if op_type == "Constant" and not inputs:
            return _constant(self.builder, named["value"])
        values = [part if part is None or isinstance(part, Value) else _constant(self.builder, part) for part in inputs]
        found = self.builder.op(op_type, *values, outputs=outputs, dtype=None, domain=domain, **named)
        for value in found if outputs > 1 else (found,):
            value.dtype = None
        return found


def _attribute(key, part):
    if key.endswith("_f"):
        return [float(number) for number in part] if isinstance(part, (list, tuple)) else float(part)
    return part


def _constant(builder, data):
    """A number or a tensor as a constant."""
    if not hasattr(data, "dtype"):
        return builder.scalar(data, 9 if isinstance(data, bool) else 7 if isinstance(data, int) else 1)
    shape = tuple(int(size) for size in data.shape)
    return builder.graph.constant(data.reshape(-1).tolist(), element_type(data.dtype), shape)


def table(given, opset):
    """What the lowering takes: translations by what nodes call."""
    found = {}
    for target, functions in (given or {}).items():
        function = functions[-1] if isinstance(functions, (list, tuple)) else functions
        if not callable(function):
            raise TypeError(f"the translation of {label_of(target)} is no function: {function!r}")
        found[target] = _direct(function)
    return Registered(found, opset)


class Registered(dict):
    """Translations by targets; those that are registered by name are found as well."""

    def __init__(self, found, opset):
        super().__init__(found)
        self.opset = opset

    def __contains__(self, target):
        return super().__contains__(target) or self._registered(target) is not None

    def __getitem__(self, target):
        return super().__getitem__(target) if super().__contains__(target) else self._registered(target)

    def _registered(self, target):
        if not REGISTERED or not hasattr(target, "_schema"):
            return None
        parts = str(target).split(".")
        versions = [version for name, version in REGISTERED if name == "::".join(parts[:2]) and version <= self.opset]
        return _symbolic(REGISTERED["::".join(parts[:2]), max(versions)]) if versions else None


def _symbolic(function):
    def write(lowering, node, arguments, options):
        return _checked(function(SymbolicGraph(lowering.g), *arguments, **options), node)

    return write


def _direct(function):
    """A function of the caller: of ONNX Script where that is installed, or one whose first argument is ``g``."""

    def write(lowering, node, arguments, options):
        code = getattr(function, "__code__", None)
        if code is not None and code.co_varnames[:1] == ("g",):
            return _checked(function(SymbolicGraph(lowering.g), *arguments, **options), node)
        try:
            from corten.onnx._script import recorded
        except ImportError as error:
            raise OnnxExporterError(
                f"the translation of {label_of(node.target)} is of ONNX Script, which is not installed; a function whose first "
                "argument is called g needs nothing else: g.op(\"Relu\", x)"
            ) from error
        return _checked(recorded(lowering.g, function, arguments, options), node)

    return write


def _checked(found, node):
    parts = found if isinstance(found, (tuple, list)) else [found]
    if not all(isinstance(part, Value) or part is None for part in parts):
        raise OnnxExporterError(f"the translation of {label_of(node.target)} gave {found!r}, which is no value")
    return found
