"""Functions of ONNX Script as translations: their calls of operators are written into the graph."""

from __future__ import annotations

from onnxscript import evaluator

from corten.onnx._custom import _constant
from corten.onnx._graph import Value


class _Recorder(evaluator.Evaluator):
    """Writes what functions call."""

    def __init__(self, builder):
        self.builder = builder

    def eval(self, schema, inputs, attributes):
        values = [part if part is None or isinstance(part, Value) else _constant(self.builder, part) for part in inputs]
        count = attributes.pop("_outputs", None) or len([output for output in schema.outputs])
        domain = "" if schema.domain in ("", "ai.onnx") else schema.domain
        found = self.builder.op(schema.name, *values, outputs=count, domain=domain, **attributes)
        for value in found if count > 1 else (found,):
            value.dtype = None
        return found

    def eval_op(self, op, args, kwargs):
        schema = op.op_schema
        names = [name for name in schema.attributes]
        attributes = {name: kwargs.pop(name) for name in names if name in kwargs}
        inputs = [*args, *kwargs.values()]
        return self.eval(schema, inputs, attributes)

    def eval_function(self, function, args, kwargs):
        return function.function(*args, **kwargs)


def recorded(builder, function, arguments, options):
    """What a function of ONNX Script gives for values."""
    recorder = _Recorder(builder)
    call = getattr(function, "function", function)
    with evaluator.default_as(recorder):
        return call(*arguments, **options)


