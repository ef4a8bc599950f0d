"""Programs that are compiled from Python: which functions, methods and classes they need, each compiled once."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import sys
import types

import corten
from corten import _C
from corten.jit import _builtins
from corten.jit._annotations import Annotations, attribute_type, evaluated, is_tuple_class
from corten.jit._compile import FunctionCompiler
from corten.jit._layer_templates import LAYERS
from corten.jit._static import HELPERS, Method
from corten.jit._structure import ClassText, Structure, literal, original_class, qualifier_of, short_name
from corten.jit._templates import FUNCTIONS, MODULES
from corten.jit._types import NONE, TENSOR, Type, UnknownTypeError
from corten.jit.frontend import NotSupportedError, Source, SourceRange, source_of


class Template:
    """A function of the library that is compiled from a template."""

    def __init__(self, name):
        self.name = self.__name__ = name


class _Space:
    """``F`` in templates: the templates, and what else there is."""

    def __getattr__(self, name):
        if name in _templates():
            return Template(name)
        return getattr(corten.nn.functional, name)


class OperatorName:
    """An operator in templates."""

    def __init__(self, name):
        self.name = self.__name__ = name


class _Operators:
    """``torch`` in templates: its operators."""

    def __getattr__(self, name):
        return OperatorName(name)


class MissingError(RuntimeError):
    """Something of the library for which there is no TorchScript yet."""


@functools.cache
def _templates():
    return {node.name: node for node in ast.parse(FUNCTIONS).body}


@functools.cache
def _space():
    import typing

    return {"torch": _Operators(), "F": _Space(), "inf": float("inf"), "weights_of": weights_of, "annotate": corten.jit.annotate, **HELPERS, "Tensor": corten.Tensor, **{
        name: getattr(typing, name) for name in ("List", "Optional", "Tuple", "Dict", "Union")
    }}


@functools.cache
def _operator_names():
    """The operators of ``torch`` by the identity of what Python has for them."""
    found = {}
    spaces = ((corten, ""), (corten.nn.functional, ""), (corten._C._nn, ""), (corten.linalg, "linalg_"),
              (corten.special, "special_"), (corten.fft, "fft_"), (corten.Tensor, ""))
    for space, prefix in spaces:
        for name in sorted({*dir(space), *getattr(space, "_FUNCTIONAL", ())}):
            short = prefix + name
            if name.startswith("__") or not (_C._op_overloads("aten::" + short) or short in _builtins.ALWAYS):
                continue
            value = getattr(space, name, None)
            if callable(value):
                found.setdefault(id(value), (f"torch.{short}", value))
    return found


class Program(Structure):
    """A program that is being compiled."""

    def __init__(self):
        super().__init__()
        self.annotations = Annotations(self.declare)
        self._functions, self._declared, self._begun = {}, {}, set()
        self.refusal = None

    # Modules

    def _fill(self, found, module):
        super()._fill(found, module)
        for name in (*found.parameters, *found.buffers):
            kind = attribute_type(module, name, None, self.annotations)
            library = is_of_library(original_class(module))
            if kind is not None and kind.name == "Optional" and not library:
                found.attributes[name] = kind
        for name, value in vars(module).items():
            if not name.startswith("_") and name not in found.attributes:
                kind = attribute_type(module, name, value, self.annotations)
                if kind is not None:
                    found.attributes[name] = kind

    def declare_attribute(self, module, name, compiler, node):
        """Sees to it that a module's class has an attribute."""
        text = self.class_of(module)
        if name in text.attributes:
            return
        value = getattr(module, name, None)
        kind = attribute_type(module, name, value, self.annotations)
        if kind is None:
            raise compiler.refused(
                node, f"Module '{text.short}' has no attribute '{name}'" if not hasattr(module, name) else
                f"the attribute '{name}' of '{text.short}' is a {type(value).__name__}, which has no type in TorchScript"
            )
        text.attributes[name] = kind

    def method(self, module, name, function=None, kind=None):
        """Compiles a method of a module; ``kind`` is the class that has the function."""
        owner = self.class_of(module)
        if (id(module), name) in self._begun:
            return
        self._begun.add((id(module), name))
        if function is None:
            function = name
        compiler = self._compiler_of_method(module, owner, function, kind)
        owner.methods[name] = compiler.text(name)

    def overloads(self, module, name):
        """The declarations of overloads of a method, the last of which is not one."""
        from corten.jit import _overloads

        function = getattr(original_class(module), name, None)
        return _overloads.get((function.__module__, function.__qualname__), ()) if inspect.isfunction(function) else ()

    def overloaded_method(self, module, name, place):
        """Compiles one overload of a method; gives its name."""
        made, owner = f"{name}__{place}", self.class_of(module)
        if (id(module), made) not in self._begun:
            self._begun.add((id(module), made))
            declared, _ = self.parsed(self.overloads(module, name)[place])
            compiler = self._of_source(module, owner, getattr(original_class(module), name))
            compiler.node.args, compiler.node.returns = declared.args, declared.returns
            owner.methods[made] = compiler.text(made)
        return made

    def _compiler_of_method(self, module, owner, function, kind):
        """The compiler of a method: of a template, or of its source."""
        name = function if isinstance(function, str) else getattr(function, "__name__", "forward")
        classes = original_class(module).__mro__
        if kind is not None:
            classes = classes[classes.index(kind):]
        for one in classes:
            library = is_of_library(one)
            template = (MODULES.get(one.__name__) or LAYERS.get(one.__name__)) if library else None
            if template is not None:
                compiler = self._of_template(module, owner, template, name)
                if compiler is not None:
                    return compiler
            if name in vars(one):
                found = vars(one)[name]
                found = getattr(found, "__func__", found)
                found = found.fget if isinstance(found, property) else found
                if library and name == "forward" and one.__name__ not in ("Sequential",):
                    raise MissingError(f"there is no TorchScript for the module {one.__name__}")
                return self._of_source(module, owner, found)
        raise MissingError(f"there is no method {name!r} of {owner.short}")

    def _of_template(self, module, owner, text, name):
        rank = next((int(sign) + 1 for sign in type(module).__name__ if sign.isdigit()), 0)
        text = text.replace("INSTANCE_RANK", str(rank))
        nodes = {one.name: one for one in ast.parse(text).body}
        if name not in nodes:
            return None
        source = Source(text, "<library>", 1)
        made = FunctionCompiler(self, source, nodes[name], _space(), module, owner, inlines=True)
        made.own_methods = frozenset(nodes)
        return made

    def _of_source(self, module, owner, function):
        if _is_left_out(function):
            return _Raising(self, function, module, owner)
        node, source = self.parsed(function)
        return FunctionCompiler(self, source, node, names_of(function), module, owner, function=function)

    def parsed(self, function):
        """The definition of a function, and its source."""
        source = source_of(function)
        node = ast.parse(source.text).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise NotSupportedError(SourceRange(source, node), "Expected a single top-level function")
        return node, source

    def classes_after(self, module, function):
        """The classes that ``super()`` of a method looks in."""
        classes = original_class(module).__mro__
        name = getattr(function, "__qualname__", "").rpartition(".")[0].rpartition(".")[2]
        places = [place for place, one in enumerate(classes) if one.__name__ == name]
        return classes[places[0] + 1 if places else 1:]

    # Functions

    def operator_name(self, value):
        """``torch.add`` of what Python has for an operator, or None."""
        if isinstance(value, Template):
            return None
        if isinstance(value, OperatorName):
            return f"torch.{value.name}"
        if type(value).__module__.endswith(".ops") and hasattr(value, "_qualified_op_name"):
            return "ops." + value._qualified_op_name.replace("::", ".")
        if type(value).__module__.endswith(".ops") and hasattr(value, "_qualified"):
            return "ops." + value._qualified.partition(".")[0].replace("::", ".")
        if _template_of(value) is not None:
            return None
        module = getattr(value, "__module__", None)
        if module == "math":
            return f"torch.{value.__name__}"
        found = _operator_names().get(id(value))
        return None if found is None else found[0]

    def function(self, value, compiler=None, node=None):
        """The qualified name of a function, which is compiled when it is first asked for."""
        template = value if isinstance(value, Template) else _template_of(value)
        if template is not None:
            return self._function_of_template(template.name)
        value = getattr(value, "_script_original", value)
        if not isinstance(value, types.FunctionType):
            raise MissingError(f"there is no TorchScript for {getattr(value, '__name__', value)!r}")
        key = id(value)
        if key not in self._functions:
            module = value.__module__ or ""
            if module.partition(".")[0] in ("corten", "torch") and not module.partition(".")[2].startswith("testing"):
                raise MissingError(f"there is no TorchScript for {module}.{value.__name__}")
            name = self._functions[key] = self.unique(qualifier_of(value), short_name(value))
            self._keep(value)
            if _is_left_out(value):
                self.functions[name] = _Raising(self, value).text(name.rpartition(".")[2])
            else:
                parsed, source = self.parsed(value)
                made = FunctionCompiler(self, source, parsed, names_of(value), function=value)
                self.functions[name] = made.text(name.rpartition(".")[2])
        return self._functions[key]

    def spread_sizes(self, value, node, compiler):
        """Numbers that stand for all sizes of a pooling or padding become lists, as the templates take them."""
        template = value if isinstance(value, Template) else _template_of(value)
        if template is None:
            return
        listed = _templates()[template.name].args.args
        rank = next((int(sign) for sign in template.name if sign.isdigit()), 2 if template.name in ("unfold", "fold") else 1)
        kinds = {one.arg: ast.unparse(one.annotation) for one in listed}
        places = [(one.arg, place) for place, one in enumerate(listed[:len(node.args)])]
        for name, place in places:
            node.args[place] = _spread(compiler, node.args[place], kinds[name], rank)
        for one in node.keywords:
            if one.arg in kinds:
                one.value = _spread(compiler, one.value, kinds[one.arg], rank)

    def _keep(self, value):
        self._declared.setdefault("kept", []).append(value)

    def _function_of_template(self, name):
        if name not in self._functions:
            full = self._functions[name] = self.unique("__torch__.torch.nn.functional", name)
            source = Source(FUNCTIONS, "<library>", 1)
            made = FunctionCompiler(self, source, _templates()[name], _space(), inlines=True)
            self.functions[full] = made.text(name)
        return self._functions[name]

    def asserting(self):
        """The function that ``torch._assert`` becomes."""
        if "assert" not in self._functions:
            name = self._functions["assert"] = self.unique("__torch__.torch", "_assert")
            self.functions[name] = "def _assert(condition: bool, message: str) -> NoneType:\n  assert condition, message\n  return None\n"
        return self._functions["assert"]

    def special(self, value):
        """How calls of a few functions are written, or None."""
        try:
            return _special().get(value)
        except TypeError:
            return None

    def grad_mode(self, name):
        """The class that a ``with`` block of this name needs."""
        key = ("grad", name)
        if key not in self._declared:
            made = ClassText(self.unique("__torch__.torch.autograd.grad_mode", name), base="")
            made.attributes.update(prev=Type("bool"), mode=Type("bool"))
            argument = "" if name != "set_grad_enabled" else ", mode: bool"
            mode = {"no_grad": "False", "enable_grad": "True"}.get(name, "mode")
            own = f"self: {made.name}"
            made.methods["__init__"] = (
                f"def __init__({own}{argument}) -> NoneType:\n  self.prev = False\n  self.mode = {mode}\n  return None\n")
            made.methods["__enter__"] = (
                f"def __enter__({own}) -> NoneType:\n  self.prev = torch.is_grad_enabled()\n"
                "  torch.set_grad_enabled(self.mode)\n  return None\n")
            made.methods["__exit__"] = (
                f"def __exit__({own}, exc_type: Any, exc_value: Any, traceback: Any) -> NoneType:\n"
                "  torch.set_grad_enabled(self.prev)\n  return None\n")
            self._declared[key] = made.name
            self.classes[made.name] = made
        return self._declared[key]

    # Classes

    def declare(self, kind):
        """The qualified name of a class of Python: of tuples with names, enums, and compiled classes."""
        if kind in self._declared:
            return self._declared[kind]
        name = self._declared[kind] = self.unique(qualifier_of(kind), short_name(kind))
        space = vars(sys.modules.get(kind.__module__, corten))
        if is_tuple_class(kind):
            self._declare_tuple(kind, name, space)
        elif issubclass(kind, enum.Enum):
            made = self.classes[name] = ClassText(name, "Enum")
            made.fields = [f"{one.name} = {literal(one.value)}" for one in kind]
        elif getattr(kind, "_is_script_class", False):
            self._declare_class(kind, name, space)
        else:
            raise MissingError(f"objects of the class {kind.__name__} have no type in TorchScript")
        return name

    def _declare_tuple(self, kind, name, space):
        made = self.classes[name] = ClassText(name, "NamedTuple")
        annotations = getattr(kind, "__annotations__", {})
        for field in kind._fields:
            of_field = evaluated(annotations[field], space, self.annotations) if field in annotations else TENSOR
            made.fields.append(f"{field} : {of_field}")
        kind._script_name = name

    def _declare_class(self, kind, name, space):
        """A class with methods: its attributes are those that ``__init__`` assigns."""
        made = self.classes[name] = ClassText(name, "")
        functions = {key: value for key, value in vars(kind).items() if isinstance(value, types.FunctionType)}
        for key, value in functions.items():
            node, source = self.parsed(value)
            compiler = _ClassMethod(self, source, node, names_of(value), made, value)
            if key == "__init__":
                compiler.declare_attributes()
        for key, value in functions.items():
            node, source = self.parsed(value)
            made.methods[key] = _ClassMethod(self, source, node, names_of(value), made, value).text(key)


class _ClassMethod(FunctionCompiler):
    """A method of a class that is no module."""

    def __init__(self, program, source, node, space, owner, function):
        super().__init__(program, source, node, space, None, owner, function=function)

    def static(self, node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.bindings:
            return None
        return super().static(node)

    def _attribute(self, node):
        if isinstance(node.value, ast.Name) and node.value.id in self.bindings:
            return f"self.{node.attr}"
        return super()._attribute(node)

    def target(self, node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.bindings:
            return f"self.{node.attr}"
        return super().target(node)

    def declare_attributes(self):
        """The types of what ``__init__`` assigns to attributes: of arguments, annotations and constants."""
        kinds = {one.arg: one.annotation for one in self.node.args.args}
        own = self.node.args.args[0].arg
        for node in ast.walk(self.node):
            target = node.target if isinstance(node, ast.AnnAssign) else (
                node.targets[0] if isinstance(node, ast.Assign) else None)
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == own:
                if isinstance(node, ast.AnnAssign):
                    kind = self.kind(node.annotation)
                else:
                    kind = self._guessed(node.value, kinds)
                self.owner.attributes.setdefault(target.attr, kind)

    def _guessed(self, value, kinds):
        from corten.jit._types import of_value

        if isinstance(value, ast.Name) and kinds.get(value.id) is not None:
            return self.kind(kinds[value.id])
        known = self.static(value)
        if known is not None:
            try:
                return of_value(known.value)
            except UnknownTypeError:
                return TENSOR
        if isinstance(value, ast.Call):
            called = self.static(value.func)
            if called is not None and isinstance(called.value, type):
                try:
                    return self.program.annotations.type_of(called.value)
                except UnknownTypeError:
                    return TENSOR
        return TENSOR


class _Raising:
    """The text of a function that is left out of the program."""

    def __init__(self, program, function, module=None, owner=None):
        self.program, self.function, self.owner = program, function, owner

    def text(self, name):
        """A definition that raises."""
        node, source = self.program.parsed(self.function)
        compiler = FunctionCompiler(self.program, source, node, names_of(self.function), None, self.owner, function=self.function)
        compiler.bindings = {}
        given = compiler._parameters(node.args)
        returned = compiler._returned() or TENSOR
        from corten._jit_internal import FunctionModifiers, get_torchscript_modifier

        if get_torchscript_modifier(self.function) == FunctionModifiers.IGNORE:
            self.program.refusal = f"Could not export Python function call '{name}'. Remove calls to Python functions before export."
        message = "This Python function is annotated to be ignored and cannot be run"
        lines = [f"def {name}({', '.join(given)}) -> {returned}:", f'  ops.prim.RaiseException("{message}", "builtins.Exception")']
        lines.append("  return None" if returned == NONE else f"  return uninitialized({returned})")
        return "\n".join(lines) + "\n"


def _spread(compiler, node, kind, rank):
    """An argument of a template as its type has it."""
    known = compiler.static(node)
    if known is None or known.text is not None or isinstance(known.value, bool):
        return node
    value, number = known.value, float if "float" in kind else int
    if "List[" in kind and isinstance(value, (int, float)):
        made = [number(value)] * rank
    elif "List[" in kind and isinstance(value, (tuple, list)) and value and None not in value:
        made = [number(one) for one in value]
    elif kind in ("float", "Optional[float]") and type(value) is int:
        made = float(value)
    else:
        return node
    return ast.copy_location(ast.parse(repr(made), mode="eval").body, node)


def is_of_library(kind):
    """Whether a class is one of the modules of this library."""
    return (kind.__module__ or "").partition(".")[2].startswith("nn.modules") and kind.__module__.startswith(("corten", "torch"))


def _is_left_out(function):
    from corten._jit_internal import is_ignored_fn

    return is_ignored_fn(function)


def names_of(function):
    """The global and captured names of a function."""
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


@functools.cache
def _template_ids():
    found = {}
    for name in _templates():
        value = getattr(corten.nn.functional, name, None)
        if value is not None:
            found[id(value)] = Template(name)
    return found


def _template_of(value):
    return _template_ids().get(id(value))


def _annotate(compiler, node):
    return f"annotate({compiler.kind(node.args[0])}, {compiler.expression(node.args[1])})"


def _second(compiler, node):
    return compiler.expression(node.args[1])


def _first(compiler, node):
    return compiler.expression(node.args[0])


def _fork(compiler, node):
    known = compiler.static(node.args[0])
    name = compiler.value_text(known, node) if known is not None and not isinstance(known.value, (Method, corten.nn.Module)) else None
    if name is None:
        raise MissingError("fork of a method has no TorchScript yet")
    rest = [compiler.expression(one) for one in node.args[1:]]
    return f"fork({', '.join((name, *rest))})"


def _wait(compiler, node):
    return f"torch.wait({compiler.expression(node.args[0])})"


def _warn(compiler, node):
    return f"torch.warn(str({compiler.expression(node.args[0])}), 2)"


def _assert(compiler, node):
    name = compiler.program.asserting()
    message = compiler.expression(node.args[1]) if len(node.args) > 1 else '""'
    return f"{name}(bool({compiler.expression(node.args[0])}), {message}, )"


def _unwrap(compiler, node):
    return f"torch._unwrap_optional({compiler.expression(node.args[0])})"


def _device(compiler, node):
    return f"torch.device({', '.join(compiler.arguments(node))})"


def _weights(compiler, node):
    names = [name for group in compiler.module._all_weights for name in group]
    return "[" + ", ".join(f"self.{name}" for name in names) + "]"


def weights_of(module):
    """The weights of a recurrent module, in templates."""
    raise TypeError("weights_of is a name of templates alone")


@functools.cache
def _special():
    import typing
    import warnings

    from corten import jit

    return {
        jit.annotate: _annotate, typing.cast: _second, jit.fork: _fork, jit.wait: _wait, warnings.warn: _warn,
        corten.device: _device, corten._assert: _assert, jit._unwrap_optional: _unwrap, weights_of: _weights,
    }
