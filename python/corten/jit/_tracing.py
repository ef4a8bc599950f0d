"""Traces: the operators that a call makes, written down as code of TorchScript that makes them again."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import re
import types
import warnings

import corten
from corten import _C
from corten.jit import _graphs
from corten.jit._compiled_calls import CompiledCalls, paused
from corten.jit._operators import Schema
from corten.jit._structure import attribute, is_name, literal
from corten.jit._types import TENSOR, Type, of_value
from corten.overrides import TorchFunctionMode

_schema = functools.cache(Schema)
#: Operators of this library alone, and what stands for them.
_RENAMED = {"aten::flip_view": "aten::flip"}
_LOCAL = re.compile(r"\b_\d+\b")
_VALUES = {
    "__bool__": "boolean", "__int__": "integer", "__float__": "float", "__index__": "index", "item": "number",
    "tolist": "list", "numpy": "NumPy array", "__len__": None,
}


class TracedInt(int):
    """A size that a trace knows the origin of: operations on it are recorded as well."""

    def __new__(cls, value, expression, tracer):
        made = super().__new__(cls, value)
        made.expression, made.tracer = expression, tracer
        return made

    def __reduce__(self):
        return int, (int(self),)

    def __deepcopy__(self, memo):
        return self

    def _with(self, name, other, value, reverse=False):
        if type(other) not in (int, TracedInt) or type(value) is not int or not self.tracer.active:
            return value
        parts = [self.expression, getattr(other, "expression", None) or str(int(other))]
        if reverse:
            parts.reverse()
        return self.tracer.traced_int(value, f"torch.{name}({', '.join(parts)})")


def _arithmetic(name, magic, function):
    def forward(self, other):
        if not isinstance(other, (int, float, complex)):
            return NotImplemented
        return self._with(name, other, function(int(self), int(other) if isinstance(other, TracedInt) else other))

    def backward(self, other):
        if not isinstance(other, (int, float, complex)):
            return NotImplemented
        return self._with(name, other, function(other, int(self)), reverse=True)

    setattr(TracedInt, f"__{magic}__", forward)
    setattr(TracedInt, f"__r{magic}__", backward)


for _names in (("add", "add", operator.add), ("sub", "sub", operator.sub), ("mul", "mul", operator.mul),
               ("floordiv", "floordiv", operator.floordiv), ("remainder", "mod", operator.mod)):
    _arithmetic(*_names)
TracedInt.__neg__ = lambda self: 0 - self


class Watch(TorchFunctionMode):
    """Sees calls before their arguments are parsed: sizes that came from tensors, and tensors that become
    values of Python."""

    def __init__(self, tracer):
        super().__init__()
        self.tracer = tracer
        shape = corten.Tensor.shape.__get__
        self.sizes = {shape: "shape", corten.Tensor.size: "size", corten.Tensor.numel: "numel"}
        self.indexing = {corten.Tensor.__getitem__: _indexed, corten.Tensor.__setitem__: _set_indexed}
        self.values = {getattr(corten.Tensor, name): what for name, what in _VALUES.items()}

    def __torch_function__(self, func, types_, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            size, value = self.sizes.get(func), self.values.get(func)
        except TypeError:
            return func(*args, **kwargs)
        if size is not None:
            return self.tracer.size(size, func(*args, **kwargs), args, kwargs)
        if value is not None and self.tracer.active:
            _warn(value)
        if self.tracer.active and func in self.indexing and not kwargs:
            return self.indexing[func](self.tracer, *args)
        with self.tracer.given(args, kwargs):
            if isinstance(func, types.FunctionType):
                body = _body(func)
                if body is not None:
                    with self:
                        return body(*args, **kwargs)
            return func(*args, **kwargs)


def _basic(index):
    """The parts of an index of numbers and slices, or None where it has others."""
    parts = list(index) if isinstance(index, tuple) else [index]
    for one in parts:
        whole = isinstance(one, int) and type(one) is not bool
        if isinstance(one, slice):
            given = [part for part in (one.start, one.stop, one.step) if part is not None]
            whole = all(isinstance(part, int) for part in given) and (one.step is None or one.step > 0)
        if not (whole or one is None or one is Ellipsis):
            return None
    return parts


def _view_of(tracer, tensor, parts):
    """A view by operators of one dimension each, also where a slice leaves nothing out."""
    used = sum(1 for one in parts if one is not None and one is not Ellipsis)
    if parts.count(Ellipsis) > 1 or used > tensor.dim():
        return None
    if Ellipsis not in parts:
        parts = [*parts, Ellipsis]
    place = parts.index(Ellipsis)
    parts = [*parts[:place], *[slice(None)] * (tensor.dim() - used), *parts[place + 1:]]
    dim = 0
    for one in parts:
        if one is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(one, int):
            with tracer.given((dim, one), {}):
                tensor = _C._op_call("aten::select.int", tensor, dim, int(one))
            dim -= 1
        elif one != slice(None):
            start, step = 0 if one.start is None else one.start, one.step or 1
            with tracer.given((dim, start, *([] if one.stop is None else [one.stop]), step), {}):
                end = None if one.stop is None else int(one.stop)
                tensor = _C._op_call("aten::slice.Tensor", tensor, dim, int(start), end, int(step))
        dim += 1
    return tensor


def _indexed(tracer, tensor, index):
    parts = _basic(index) if isinstance(tensor, corten.Tensor) else None
    found = None if parts is None else _view_of(tracer, tensor, parts)
    if found is not None:
        return _C._op_call("aten::alias", found) if found is tensor else found
    with tracer.given((index,), {}):
        return tensor[index]


def _set_indexed(tracer, tensor, index, value):
    parts = _basic(index)
    found = None if parts is None or not isinstance(value, (int, float, corten.Tensor)) else _view_of(tracer, tensor, parts)
    if found is None and isinstance(index, corten.Tensor) and isinstance(value, (int, float, corten.Tensor)):
        if not isinstance(value, corten.Tensor):
            value = corten.full((), value, dtype=tensor.dtype, device=tensor.device)
        _C._op_call("aten::index_put_", tensor, [index], value)
    elif found is None:
        with tracer.given((index, value), {}):
            tensor[index] = value
    elif isinstance(value, corten.Tensor):
        while value.dim() > found.dim() and value.shape[0] == 1:
            value = value.squeeze(0)
        found.copy_(value)
    else:
        found.fill_(value)


@functools.cache
def _body(function):
    """The function without the question whether it is overridden, or None if that is not known."""
    inside = getattr(function, "__wrapped__", None)
    if isinstance(inside, types.FunctionType):
        return inside
    if function.__globals__.get("overridden") is not _C._overridden:
        return None
    space = {**function.__globals__, "overridden": lambda *values: False}
    made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _warn(what):
    from corten.jit import TracerWarning

    warnings.warn(
        f"Converting a tensor to a Python {what} might cause the trace to be incorrect. We can't record the data flow of "
        "Python values, so this value will be treated as a constant in the future. This means that the trace might not "
        "generalize to other inputs!", TracerWarning, stacklevel=4,
    )


class Tracer(CompiledCalls):
    """What a trace has recorded: lines of code, and the expressions of tensors by identity."""

    def __init__(self, structure, module=None):
        self.structure, self.lines, self.count, self.active = structure, [], 0, False
        self.known, self.kept, self.pending, self.numbers = {}, [], [], []
        self.refusal, self.of_sizes, self.modules = None, set(), {}
        if module is not None:
            self._name_tensors(module, "self", set())

    def _name_tensors(self, module, path, seen):
        """The expressions of the parameters and buffers of a module."""
        if id(module) in seen:
            return
        seen.add(id(module))
        self.modules[id(module)] = path
        for name, value in (*module._parameters.items(), *module._buffers.items()):
            if value is not None:
                self.known.setdefault(id(value), attribute(path, name))
                self.kept.append(value)
        for name, child in module._modules.items():
            if child is not None:
                self._name_tensors(child, attribute(path, name), seen)

    def fresh(self):
        """A new local name."""
        self.count += 1
        return f"_{self.count}"

    def name(self, tensor, expression):
        """Remembers the expression of a tensor, which stays alive."""
        self.known[id(tensor)] = expression
        self.kept.append(tensor)

    def line(self, expression):
        """A line that gives a value a name."""
        name = self.fresh()
        self.lines.append(f"{name} = {expression}")
        return name

    def traced_int(self, value, expression):
        """A size with a name."""
        name = self.line(expression)
        self.of_sizes.add(name)
        return TracedInt(value, name, self)

    def used_lines(self, result):
        """The lines without those of sizes that nothing uses."""
        kept, used = [], set(_LOCAL.findall(result))
        for line in reversed(self.lines):
            name, _, expression = line.partition(" = ")
            if name not in self.of_sizes or name in used:
                kept.append(line)
                used.update(_LOCAL.findall(expression))
        return kept[::-1]

    def size(self, what, found, args, kwargs):
        """A size of a tensor, as integers that know their origin."""
        if not self.active or type(args[0]) is not corten.Tensor and not isinstance(args[0], corten.Tensor):
            return found
        tensor = self.expression(args[0])
        if what == "numel":
            return self.traced_int(int(found), f"torch.numel({tensor})")
        if isinstance(found, int):
            dim = args[1] if len(args) > 1 else kwargs["dim"]
            return self.traced_int(int(found), f"torch.size({tensor}, {dim})") if isinstance(dim, int) else found
        return corten.Size([
            self.traced_int(int(one), f"torch.size({tensor}, {dim})") for dim, one in enumerate(found)
        ])

    @contextlib.contextmanager
    def given(self, args, kwargs):
        """While a call with these arguments runs, their sizes are looked for in its operators."""
        before = self.pending, self.numbers
        found = list(_integers((*args, *kwargs.values())))
        self.pending = found if any(isinstance(one, TracedInt) for one in found) else []
        self.numbers = [one for one in (*args, *kwargs.values()) if isinstance(one, (int, float, complex))]
        try:
            yield
        finally:
            self.pending, self.numbers = before

    def expression(self, tensor):
        """The expression of a tensor; of one that the trace does not know, a constant."""
        found = self.known.get(id(tensor))
        if found is None:
            if tensor.requires_grad and tensor.is_leaf:
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or "
                    f"detaching the gradient\nTensor:\n{tensor}"
                )
            found = self.structure.constant(tensor.detach())
            self.name(tensor, found)
        return found

    def record(self, name, args, kwargs, result):
        """Writes down a call of an operator."""
        schema = _schema(name)
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        if not any(isinstance(one, corten.Tensor) for one in outputs) and "!" not in _C._op_schema(name):
            return
        if name.startswith("aten::upsample_") and not name.endswith(".vec"):
            args = _by_scale(args, schema)
        sizes = self._aligned([*args, *kwargs.values()])
        texts = [self._argument(one, value, sizes) for one, value in zip(schema.positional, args)]
        for key, value in kwargs.items():
            if value is not None and not (key == "pin_memory" and value is False):
                texts.append(f"{key}={self._argument(schema.keywords[key], value, sizes)}")
        self._result(f"{self._callee(name)}({', '.join(texts)})", schema, outputs)

    def _callee(self, name):
        qualified = name.partition(".")[0]
        qualified = _RENAMED.get(qualified, qualified)
        space, _, short = qualified.partition("::")
        if space == "corten":
            self.refusal = self.refusal or f"{qualified} is an operator that PyTorch does not have"
        return f"torch.{short}" if space == "aten" else f"ops.{space}.{short}"

    def _result(self, call, schema, outputs):
        """The line of a call, with names for its results."""
        if schema.returns == "()":
            self.lines.append(f"{self.fresh()} = {call}")
            return
        names = [self.fresh() for _ in outputs]
        several = schema.returns.startswith("(") or schema.returns.split()[0].endswith("]")
        if several and names:
            if schema.returns.startswith("("):
                self.lines.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {call}")
            else:
                made = self.line(call)
                self.lines.append(f"{', '.join(names)}, = {made}")
        elif names:
            self.lines.append(f"{names[0]} = {call}")
        for name, output in zip(names, outputs):
            if isinstance(output, corten.Tensor):
                self.name(output, name)

    def _aligned(self, values):
        """The traced sizes among the integers of a call, by their places."""
        recorded, pending = list(_integers(values)), self.pending
        found = iter([None] * len(recorded))
        if not pending:
            return found
        plain = [int(one) for one in pending]
        for start in range(len(recorded) - len(plain) + 1):
            if recorded[start:start + len(plain)] == plain:
                made = [None] * len(recorded)
                made[start:start + len(plain)] = [getattr(one, "expression", None) for one in pending]
                return iter(made)
        by_value = {int(one): one.expression for one in pending if isinstance(one, TracedInt) and plain.count(one) == 1}
        made = [by_value.get(one) if recorded.count(one) == 1 else None for one in recorded]
        return iter(made)

    def _argument(self, argument, value, sizes):
        """An argument as code."""
        if isinstance(value, corten.Tensor):
            return self._number(value) or self.expression(value)
        if isinstance(value, (list, tuple)):
            return self._list(argument, value, sizes)
        if isinstance(value, corten.Generator):
            return "None"
        if type(value) is int or isinstance(value, TracedInt):
            size = next(sizes, None)
            if size is not None:
                return size
        return literal(int(value) if isinstance(value, TracedInt) else value, argument.base)

    def _number(self, tensor):
        """The number that a tensor without dimensions stands for, or None: numbers reach operators so."""
        if id(tensor) in self.known or tensor.dim() or tensor.requires_grad or tensor.device.type == "meta":
            return None
        with paused(self):
            value = tensor.item()
        for one in self.numbers:
            if one == value:
                return getattr(one, "expression", None) or literal(one)
        return literal(value) if tensor.dtype in (corten.float64, corten.complex128) else None

    def _list(self, argument, values, sizes):
        inner = ", ".join(self._argument(argument, one, sizes) for one in values)
        kind = {"tensor": "Tensor", "scalar": "number", "int": "int", "float": "float", "bool": "bool"}.get(argument.base)
        if argument.none_inside and any(one is None for one in values):
            return f"annotate(List[Optional[{kind}]], [{inner}])"
        return f"[{inner}]" if values or kind is None else f"annotate(List[{kind}], [])"

    def output(self, value):
        """The result of the traced call as code, and its type.

        Raises:
            RuntimeError: It is not made of tensors.
        """
        if isinstance(value, corten.Tensor):
            return self.expression(value), TENSOR
        if isinstance(value, dict):
            made = [(literal(key), *self.output(item)) for key, item in value.items() if item is not None]
            text = "{" + ", ".join(f"{key}: {item}" for key, item, _ in made) + "}"
            kinds = {str(kind) for *_, kind in made}
            if len(kinds) > 1:
                raise RuntimeError("a traced function cannot return a dictionary of values of several types")
            return text, Type("Dict", [Type("str"), made[0][2] if made else TENSOR])
        if isinstance(value, list):
            made = [self.output(item) for item in value]
            return "[" + ", ".join(item for item, _ in made) + "]", Type("List", [made[0][1] if made else TENSOR])
        if isinstance(value, tuple):
            made = [self.output(item) for item in value if item is not None]
            return "(" + "".join(f"{item}, " for item, _ in made) + ")", Type("Tuple", [kind for _, kind in made])
        raise RuntimeError(
            "Type 'Tuple[" + type(value).__name__ + "]' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, "
            "and Tuples of Tensors can be traced"
        )

    def inputs(self, value, name):
        """Names the tensors of an argument; gives its type."""
        if isinstance(value, corten.Tensor):
            self.name(value, name)
            return TENSOR
        if isinstance(value, (tuple, list)):
            kinds = [self.inputs(one, f"({name})[{place}]") for place, one in enumerate(value)]
            if isinstance(value, tuple):
                return Type("Tuple", kinds)
            return Type("List", [kinds[0] if kinds else TENSOR])
        if isinstance(value, dict):
            kinds = [self.inputs(one, f"({name})[{literal(key)}]") for key, one in value.items()]
            return Type("Dict", [Type("str"), kinds[0] if kinds else TENSOR])
        return of_value(value)


def _by_scale(args, schema):
    """The arguments of a resampling without its size, if that follows from the scales."""
    names = [one.name for one in schema.positional[:len(args)]]
    scales = [value for one, value in zip(names, args) if one.startswith("scales")]
    sizes = args[0].shape[2:]
    if None in scales or any(math.floor(int(a) * b) != c for a, b, c in zip(sizes, scales, args[1])):
        return args
    return (args[0], None, *args[2:len(args) - len(scales)], list(scales))


def _integers(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _integers(value)
        elif isinstance(value, slice):
            yield from _integers((value.start, value.stop))
        elif isinstance(value, int) and type(value) is not bool:
            yield value


_current = None


def current():
    """The tracer that is recording, or None."""
    return _current if _current is not None and _current.active else None


def _handle(name, *args, **kwargs):
    tracer = _current
    _C._set_tracing_enabled(False)
    try:
        result = _C._op_call(name, *args, **kwargs)
        if tracer is not None and tracer.active:
            tracer.record(name, args, kwargs, result)
    finally:
        _C._set_tracing_enabled(True)
    return result


@contextlib.contextmanager
def recording(tracer):
    """Operators are written down by a tracer."""
    global _current
    before, state = _current, _graphs._state
    _C._set_trace_handler(_handle)
    _current, _graphs._state = tracer, _graphs.TracingState(_graphs.Graph())
    enabled = _C._set_tracing_enabled(True)
    tracer.active = True
    try:
        with Watch(tracer), _recurrent_layers(tracer):
            yield
    finally:
        tracer.active = False
        _C._set_tracing_enabled(enabled)
        _current, _graphs._state = before, state


@contextlib.contextmanager
def _recurrent_layers(tracer):
    """Recurrent layers are written down as the operators that PyTorch has for them."""
    base = corten.nn.RNNBase
    kinds = [kind for kind in (base, corten.nn.LSTM, corten.nn.GRU, corten.nn.RNN) if "forward" in vars(kind)]
    before = {kind: vars(kind)["forward"] for kind in kinds}
    for kind, original in before.items():
        kind.forward = functools.partialmethod(_recurrent, tracer, original)
    try:
        yield
    finally:
        for kind, original in before.items():
            kind.forward = original


def _recurrent(self, tracer, original, input, hx=None):
    if not isinstance(input, corten.Tensor) or not tracer.active or self.proj_size and self.mode != "LSTM":
        return original(self, input, hx)
    is_lstm, single = self.mode == "LSTM", input.dim() == 2
    batch_dim = 0 if self.batch_first else 1
    if single:
        input = input.unsqueeze(batch_dim)
    if hx is None:
        shape = (self.num_layers * (2 if self.bidirectional else 1), input.shape[batch_dim])
        state = corten.zeros(*shape, self.proj_size or self.hidden_size, dtype=input.dtype, device=input.device)
        hx = (state, corten.zeros(*shape, self.hidden_size, dtype=input.dtype, device=input.device)) if is_lstm else state
    elif single:
        hx = tuple(one.unsqueeze(1) for one in hx) if is_lstm else hx.unsqueeze(1)
    with paused(tracer):
        output, final = original(self, input, hx)
    weights = [one for group in self.all_weights for one in group]
    name = {"LSTM": "lstm", "GRU": "gru"}.get(self.mode, self.mode.lower())
    finals = final if is_lstm else (final,)
    state = f"[{', '.join(map(tracer.expression, hx))}]" if is_lstm else tracer.expression(hx)
    texts = (
        tracer.expression(input), state, f"[{', '.join(map(tracer.expression, weights))}]", str(bool(self.bias)),
        str(self.num_layers), literal(float(self.dropout)), str(self.training), str(bool(self.bidirectional)),
        str(bool(self.batch_first)),
    )
    names = [tracer.fresh() for _ in range(1 + len(finals))]
    tracer.lines.append(f"{', '.join(names)} = torch.{name}({', '.join(texts)})")
    for one, tensor in zip(names, (output, *finals)):
        tracer.name(tensor, one)
    if single:
        output = output.squeeze(batch_dim)
        final = tuple(one.squeeze(1) for one in final) if is_lstm else final.squeeze(1)
    return output, final


def traced_text(tracer, call, name, examples, parameters, owner):
    """Records a call, and gives its definition as a function, or as a method of the class ``owner``.

    Args:
        call: What is called with the examples.
        examples: The arguments.
        parameters: Their names.
    """
    kinds = [tracer.inputs(value, one) for one, value in zip(parameters, examples)]
    with recording(tracer):
        result = call(*examples)
    text, kind = tracer.output(result)
    given = [] if owner is None else [f"self: {owner}"]
    given += [f"{one}: {kind_}" for one, kind_ in zip(parameters, kinds)]
    lines = [f"def {name}({', '.join(given)}) -> {kind}:", *(f"  {line}" for line in tracer.used_lines(text)), f"  return {text}"]
    return "\n".join(lines) + "\n"


def parameters_of(function, count, keywords=()):
    """The names of the arguments of a function."""
    try:
        names = [
            one.name for one in inspect.signature(function).parameters.values()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    found = [
        one if is_name(one) and one not in ("torch", "ops", "self", "CONSTANTS") and not one.startswith("_") else f"{one}_1"
        for one in names[:count]
    ]
    return found + [f"argument_{place}" for place in range(len(found) + 1, count + 1)]


