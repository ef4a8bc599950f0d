"""Values that are known when a program is compiled: modules, functions, constants and their attributes."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math
import types
import typing

import corten
from corten import _C
from corten.jit._structure import attribute

CONSTANTS = (bool, int, float, complex, str, type(None), corten.dtype, corten.device, corten.layout, corten.memory_format)


class Static:
    """A value that is known, and the expression that stands for it where it is a module."""

    __slots__ = ("value", "text")

    def __init__(self, value, text=None):
        self.value, self.text = value, text


class Method:
    """A method of a module, or of what its class inherits from."""

    def __init__(self, module, name, function, text):
        self.module, self.name, self.function, self.text = module, name, function, text


class Weights:
    """The list of the weights of a recurrent module."""

    def __init__(self, text):
        self.text = text


def _list_of(value):
    return list(value) if isinstance(value, (tuple, list)) else value


def _tuple_of(value, count):
    if value is None:
        return None
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


def _sizes_of(value):
    return None if value is None else list(map(int, value)) if isinstance(value, (tuple, list)) else [int(value)]


def _scales_of(value):
    return None if value is None else list(map(float, value)) if isinstance(value, (tuple, list)) else [float(value)]


def _optional_of(value, count):
    """Sizes of which some may be those of the input."""
    listed = _tuple_of(value, count)
    texts = (f"input.size({place - count})" if one is None else str(int(one)) for place, one in enumerate(listed))
    return Weights(f"[{', '.join(texts)}]")


#: Functions of templates on attributes of modules, evaluated when the template is compiled.
HELPERS = {"list_of": _list_of, "tuple_of": _tuple_of, "optional_of": _optional_of, "sizes_of": _sizes_of, "scales_of": _scales_of}
_STATIC_CALLS = {isinstance, hasattr, getattr, len, callable, issubclass, type, *HELPERS.values()}


class StaticValues:
    """Evaluation of what is known; functions that are compiled derive from it. They have ``space`` (global
    names), ``locals`` (names that are assigned), ``bindings`` (names of static values), ``module`` and
    ``inlines`` (whether attributes of the module are constants)."""

    #: Methods that a template has and the module's class does not.
    own_methods = frozenset()

    def static(self, node):
        """The value of an expression, or None where it is known only when the program runs."""
        action = _ACTIONS.get(type(node))
        return None if action is None else action(self, node)

    def _constant(self, node):
        return Static(node.value)

    def _name(self, node):
        name = node.id
        if name in self.bindings:
            return self.bindings[name]
        if name in self.locals:
            return None
        if name in self.space:
            return Static(self.space[name])
        if hasattr(builtins, name):
            return Static(getattr(builtins, name))
        return None

    def _attribute(self, node):
        owner = self.static(node.value)
        if owner is None:
            return None
        value = owner.value
        if isinstance(value, corten.nn.Module) and owner.text is not None:
            return self.of_module(value, owner.text, node.attr)
        if isinstance(value, (corten.Tensor, str, Weights, Method)):
            return None
        try:
            return Static(getattr(value, node.attr))
        except AttributeError:
            return None

    def of_module(self, module, text, name):
        """An attribute of a module; None where it is a tensor or may change."""
        if name in module._modules:
            return Static(module._modules[name], attribute(text, name))
        for values in (module._parameters, module._buffers):
            if name in values:
                return Static(None) if values[name] is None and not self.is_optional(module, name) else None
        if name == "training":
            return None
        if name in self.own_methods and module is self.module:
            return Static(Method(module, name, name, text))
        if isinstance(vars(module).get(name), types.FunctionType):
            return Static(vars(module)[name])
        found = inspect.getattr_static(module, name, None)
        if isinstance(found, staticmethod):
            return Static(found.__func__)
        if isinstance(found, (types.FunctionType, classmethod)) or isinstance(found, functools_partial):
            return Static(Method(module, name, getattr(found, "__func__", found), text))
        if isinstance(found, property):
            return Static(Method(module, name, found, text))
        if found is None and name not in vars(module) and not hasattr(type(module), name):
            if name in getattr(module, "__dict__", {}):
                return Static(None)
            return None
        value = getattr(module, name)
        if value is None:
            return None if self.is_optional(module, name) else Static(None)
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)):
            return Static(value)
        if self.inlines and module is self.module or self.is_final(module, name):
            return Static(value)
        return None

    def is_final(self, module, name):
        """Whether a class says that an attribute never changes."""
        kind = type(module)
        if name in getattr(kind, "__constants__", ()):
            return True
        annotation = next((vars(one)["__annotations__"][name] for one in kind.__mro__
                           if name in vars(one).get("__annotations__", {})), None)
        if isinstance(annotation, str):
            return "Final" in annotation
        return annotation is typing.Final or typing.get_origin(annotation) is typing.Final

    def is_optional(self, module, name):
        """Whether a class says that an attribute may be None."""
        if self.inlines and module is self.module:
            return False
        for kind in type(module).__mro__:
            if (kind.__module__ or "").startswith(("corten.nn.modules", "torch.nn.modules")):
                continue
            annotation = vars(kind).get("__annotations__", {}).get(name)
            if annotation is not None:
                return "Optional" in str(annotation) or "None" in str(annotation)
        return False

    def _subscript(self, node):
        owner, key = self.static(node.value), self.static(node.slice)
        if owner is None or key is None:
            return None
        value = owner.value
        if isinstance(value, corten.nn.Module) and owner.text is not None:
            return self.element(owner, key.value)
        if isinstance(value, (tuple, list, dict)) and isinstance(key.value, (int, str)):
            return Static(value[key.value])
        if hasattr(value, "__class_getitem__") or getattr(value, "__module__", "") == "typing":
            return Static(value[key.value])
        return None

    def element(self, owner, key):
        """A module inside of a container."""
        names = list(owner.value._modules)
        if isinstance(key, int):
            key = names[key]
        return Static(owner.value._modules[key], attribute(owner.text, key)) if key in owner.value._modules else None

    def _tuple(self, node):
        found = [self.static(one) for one in node.elts]
        if any(one is None or one.text is not None for one in found):
            return None
        values = [one.value for one in found]
        return Static(tuple(values) if isinstance(node, ast.Tuple) else values)

    def _unary(self, node):
        found = self.static(node.operand)
        if found is None:
            return None
        if isinstance(node.op, ast.Not):
            return Static(not self.truth(found.value))
        if isinstance(node.op, ast.USub) and isinstance(found.value, (int, float)):
            return Static(-found.value)
        return None

    def truth(self, value):
        """The truth of a value; modules are true."""
        return True if isinstance(value, corten.nn.Module) else bool(value)

    def _boolean(self, node):
        """Values of ``and`` and ``or`` are known as soon as one decides."""
        decides = isinstance(node.op, ast.Or)
        found = [self.static(one) for one in node.values]
        known = [None if one is None else self.truth(one.value) for one in found]
        if None not in known:
            return next((one for one, true in zip(found, known) if true == decides), found[-1])
        if decides in known:
            before = known[:known.index(decides)]
            if None not in before or all(_is_pure(one) for one in node.values[:len(before)]):
                return Static(decides)
        return None

    def _compare(self, node):
        if len(node.ops) != 1:
            return None
        operator, other = node.ops[0], node.comparators[0]
        left, right = self.static(node.left), self.static(other)
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return self._identity(node, left, right, isinstance(operator, ast.Is))
        if left is None or right is None:
            return None
        if not isinstance(left.value, (*CONSTANTS, tuple, list, enum.Enum)):
            return None
        function = _COMPARISONS.get(type(operator))
        return None if function is None else Static(bool(function(left.value, right.value)))

    def _identity(self, node, left, right, same):
        if right is not None and right.value is None:
            if left is not None:
                return Static((left.value is None) == same)
            if self.is_tensor_of_module(node.left):
                return Static(not same)
        if left is not None and right is not None:
            return Static((left.value is right.value) == same)
        return None

    def is_tensor_of_module(self, node):
        """Whether an expression is a parameter or buffer that is there."""
        if not isinstance(node, ast.Attribute):
            return False
        owner = self.static(node.value)
        if owner is None or not isinstance(owner.value, corten.nn.Module):
            return False
        found = owner.value._parameters.get(node.attr, owner.value._buffers.get(node.attr))
        return found is not None and not self.is_optional(owner.value, node.attr)

    def _choice(self, node):
        test = self.static(node.test)
        return None if test is None else self.static(node.body if self.truth(test.value) else node.orelse)

    def _call(self, node):
        function = self.static(node.func)
        if function is None or node.keywords and function.value not in (getattr,):
            return None
        value = function.value
        if value in _known_results():
            return Static(_known_results()[value])
        if value is builtins.isinstance and len(node.args) == 2:
            return self._isinstance(node)
        if value is builtins.hasattr:
            return self._hasattr(node)
        if value is builtins.getattr and isinstance(node.args[1], ast.Constant):
            owner = self.static(node.args[0])
            if owner is not None and isinstance(owner.value, corten.nn.Module) and owner.text:
                return self.of_module(owner.value, owner.text, node.args[1].value)
            return None
        try:
            known = value in _STATIC_CALLS or getattr(value, "__module__", "") == "math" and self.inlines
        except TypeError:
            return None
        found = [self.static(one) for one in node.args]
        if not known or any(one is None for one in found):
            return None
        if value is len and not isinstance(found[0].value, (corten.nn.Module, tuple, list, str)):
            return None
        return Static(value(*(one.value for one in found)))

    def _isinstance(self, node):
        found, kinds = self.static(node.args[0]), self.static(node.args[1])
        if found is None or kinds is None or isinstance(found.value, (Method, Weights)):
            return None
        from corten.jit import isinstance as is_of

        try:
            return Static(bool(is_of(found.value, kinds.value)))
        except TypeError:
            return None

    def _hasattr(self, node):
        owner = self.static(node.args[0])
        if owner is None or not isinstance(node.args[1], ast.Constant):
            return None
        return Static(hasattr(owner.value, node.args[1].value))

    def _joined(self, node):
        parts = [self.static(one.value if isinstance(one, ast.FormattedValue) else one) for one in node.values]
        if any(one is None or not isinstance(one.value, (str, int)) for one in parts):
            return None
        return Static("".join(str(one.value) for one in parts)) if self.inlines else None

    def _binary(self, node):
        left, right = self.static(node.left), self.static(node.right)
        if left is None or right is None or not self.inlines:
            return None
        if not isinstance(left.value, (int, float)) or not isinstance(right.value, (int, float)):
            return None
        function = _ARITHMETIC.get(type(node.op))
        return None if function is None else Static(function(left.value, right.value))

    def modules_of(self, node):
        """The elements of a loop over modules, or None where the loop runs in the program."""
        if isinstance(node, ast.Call):
            function = self.static(node.func)
            if function is not None and function.value in (enumerate, zip, reversed) and not node.keywords:
                found = [self.modules_of(one) for one in node.args]
                if not any(one is not None for one in found):
                    return None
                found = [one if one is not None else self._elements(arg) for one, arg in zip(found, node.args)]
                if any(one is None for one in found):
                    return None
                if function.value is reversed:
                    return found[0][::-1]
                if function.value is enumerate:
                    return [(Static(place), one) for place, one in enumerate(found[0])]
                return list(zip(*found))
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "values", "keys", "children", "named_children"):
                owner = self.static(node.func.value)
                if owner is not None and isinstance(owner.value, corten.nn.Module) and owner.text:
                    return self._named(owner, node.func.attr)
            return None
        owner = self.static(node)
        if owner is None or not isinstance(owner.value, corten.nn.Module) or owner.text is None:
            return None
        if isinstance(owner.value, corten.nn.ModuleDict):
            return [Static(name) for name in owner.value._modules]
        return [self.element(owner, name) for name in owner.value._modules]

    def _named(self, owner, what):
        found = [(Static(name), self.element(owner, name)) for name in owner.value._modules]
        if what in ("items", "named_children"):
            return found
        return [name if what == "keys" else module for name, module in found]

    def _elements(self, node):
        """The elements of a list or of a range, where it is known."""
        found = self.static(node)
        if found is not None and isinstance(found.value, (tuple, list)):
            return [Static(one) for one in found.value]
        if isinstance(node, ast.Call):
            function, parts = self.static(node.func), [self.static(one) for one in node.args]
            if function is not None and function.value is range and None not in parts:
                return [Static(one) for one in range(*(one.value for one in parts))]
        return None


def _is_pure(node):
    return not any(isinstance(one, ast.Call) for one in ast.walk(node))


def _known_results():
    """Functions that ask how the program runs, and what they give in a compiled one."""
    if not _KNOWN:
        from corten import jit

        for module in (jit, corten._jit_internal):
            _KNOWN[module.is_scripting] = True
        _KNOWN[jit.is_tracing] = False
        for name, answer in (("is_compiling", False), ("is_dynamo_compiling", False), ("is_exporting", False)):
            function = getattr(corten.compiler, name, None)
            if function is not None:
                _KNOWN[function] = answer
        for function in (_C.has_torch_function, _C.has_torch_function_unary, _C.has_torch_function_variadic):
            _KNOWN[function] = False
    return _KNOWN


_KNOWN = {}
functools_partial = __import__("functools").partial
_COMPARISONS = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
               ast.FloorDiv: lambda a, b: a // b, ast.Div: lambda a, b: a / b, ast.Pow: math.pow}
_ACTIONS = {
    ast.Constant: StaticValues._constant, ast.Name: StaticValues._name, ast.Attribute: StaticValues._attribute,
    ast.Subscript: StaticValues._subscript, ast.Tuple: StaticValues._tuple, ast.List: StaticValues._tuple,
    ast.UnaryOp: StaticValues._unary, ast.BoolOp: StaticValues._boolean, ast.Compare: StaticValues._compare,
    ast.IfExp: StaticValues._choice, ast.Call: StaticValues._call, ast.JoinedStr: StaticValues._joined,
    ast.BinOp: StaticValues._binary,
}
