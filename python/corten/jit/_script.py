"""``script``: functions and modules compiled to TorchScript. In the process that compiles them they run as
the Python that they are; archives hold the compiled code."""

from __future__ import annotations

import enum
import functools

import corten
from corten.jit import _running
from corten.jit._classes import Unit
from corten.jit._modules import LoadedModule
from corten.jit._program import Program
from corten.jit._scripted import (  # noqa: F401
    RecursiveScriptModule, ScriptFunction, ScriptModule, as_script_function, mark, scripted,
)
from corten.jit._traced import VERSION, _placeholder
from corten.jit._types import UnknownTypeError
from corten.jit.frontend import FrontendError, MissingError


def script(obj=None, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """A function, module or class compiled to TorchScript.

    The result runs as Python in this process. :func:`corten.jit.save` writes the compiled code. What the
    library cannot compile is refused when it is saved; what TorchScript does not have at all, at once.

    Raises:
        RuntimeError: A module's parameters have no shape yet.
        torch.jit.frontend.NotSupportedError: The source has statements that TorchScript does not have.
    """
    if isinstance(obj, ScriptModule) or getattr(obj, "_is_scripted_function", False):
        return obj
    if isinstance(obj, corten.nn.Module):
        _refuse_uninitialized(obj)
        made = scripted(obj)
        vars(made)["_compilation"] = Compilation(made)
        return made
    if isinstance(obj, dict):
        return obj
    if isinstance(obj, type):
        if not issubclass(obj, (enum.Enum, tuple)):
            obj._is_script_class = True
        return obj
    made = mark(obj)
    if made is not obj or getattr(obj, "_is_scripted_function", False):
        as_script_function(made)
        made._compilation = Compilation(obj)
        made._saved_form = made._compilation.saved_form
        if made._compilation.refusal is None:
            made.schema = made._compilation.signature()
            made.code = made.schema.code
    return made


def _refuse_uninitialized(obj):
    for module in obj.modules():
        if getattr(module, "has_uninitialized_params", bool)():
            raise RuntimeError(
                f"{type(module).__name__}: modules with uninitialized parameters can't be compiled; "
                "run a forward pass with a dummy batch first to initialize them"
            )


class CompilationUnit:
    """Functions from source in TorchScript, found as attributes."""

    def __init__(self, lang=None, _frames_up=0):
        self._unit = _Functions({})
        if lang is not None:
            self.define(lang)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a source."""
        import ast
        import textwrap

        from corten.jit._language import SourceError, parsed

        for node in parsed(textwrap.dedent(lang), "<string>").body:
            if not isinstance(node, ast.FunctionDef):
                raise SourceError("a compilation unit is made of functions")
            self._unit.nodes[node.name] = node

    def __getattr__(self, name):
        unit = self.__dict__.get("_unit")
        function = None if unit is None else unit.global_value(name)
        if function is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        run = _running.entry(function)
        run._saved_form = lambda: _placeholder_of_source(unit, name)
        return as_script_function(run)

    def get_functions(self):
        """All functions."""
        return [getattr(self, name) for name in self._unit.nodes]


class _Functions(Unit):
    """Functions that call each other by their names."""

    def __init__(self, sources):
        super().__init__(sources, (), VERSION, LoadedModule)
        self.nodes, self._compiled = {}, {}

    def global_value(self, name):
        """A function of the unit."""
        if name not in self._compiled and name in self.nodes:
            from corten.jit._language import Compiler

            self._compiled[name] = Compiler(self, "<string>").function(self.nodes[name])
        return self._compiled.get(name)


def _placeholder_of_source(unit, name):
    """The archive of a function from source."""
    import ast

    if len(unit.nodes) > 1:
        raise RuntimeError("only units of one function are saved")
    source = {"code/__torch__.py": ast.unparse(unit.nodes[name]) + "\n"}
    return _placeholder(None, f"__torch__.{name}", Unit(source, (), VERSION, LoadedModule))


class Compilation:
    """The compiled code of a module or function, or why there is none."""

    def __init__(self, obj):
        self.name, self.refusal, self.unit = None, None, None
        self.program = Program()
        try:
            if isinstance(obj, corten.nn.Module):
                self._compile_module(obj)
            else:
                self.name = self.program.function(obj)
            self.refusal = self.program.refusal
        except FrontendError as error:
            if isinstance(error, _refusals()):
                raise
            self.refusal = str(error)
        except (MissingError, UnknownTypeError, OSError) as error:
            self.refusal = str(error)
        except RecursionError:
            self.refusal = "the source is nested too deeply"

    def _compile_module(self, module):
        from corten._jit_internal import FunctionModifiers, get_torchscript_modifier

        kind = type(module)
        program = self.program
        self.name = program.class_of(module).name
        forward = getattr(kind, "forward", None)
        if forward is not None and getattr(forward, "__name__", "") != "_forward_unimplemented":
            if not getattr(forward, "_is_unimplemented", False) and _is_defined(module):
                program.method(module, "forward")
        for name in dir(kind):
            found = getattr(kind, name, None)
            if callable(found) and get_torchscript_modifier(found) is FunctionModifiers.EXPORT:
                program.method(module, name)
        for child in module.modules():
            self._exported(child)

    def _exported(self, module):
        from corten._jit_internal import FunctionModifiers, get_torchscript_modifier

        for kind in type(module).__mro__:
            for name, found in vars(kind).items():
                if callable(found) and get_torchscript_modifier(found) is FunctionModifiers.EXPORT:
                    self.program.method(module, name)

    def built(self):
        """The code.

        Raises:
            RuntimeError: There is none.
        """
        if self.refusal is not None:
            raise RuntimeError(f"Could not compile to TorchScript: {self.refusal}")
        if self.unit is None:
            self.unit = Unit(self.program.sources(), self.program.constants, VERSION, LoadedModule)
            self.unit.python_classes = self.program.python_classes()
        return self.unit

    def saved_form(self, module=None):
        """What an archive holds."""
        unit = self.built()
        if module is None:
            return _placeholder(self.program, self.name, unit)
        self.program.give_classes(unit, module)
        return module, unit

    def code(self, name="forward"):
        """The source of a method, or of the function."""
        unit = self.built()
        found = unit.find_value(self.name) if name is None else unit.find_class(self.name).methods[name]
        return found._script_signature.code

    def signature(self):
        """The arguments of the function."""
        return self.built().find_value(self.name)._script_signature

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _none, ()


def _none():
    return None


def _is_defined(module):
    return any("forward" in vars(kind) for kind in type(module).__mro__ if kind is not corten.nn.Module)


@functools.cache
def _refusals():
    from corten.jit.frontend import UnsupportedNodeError

    return (UnsupportedNodeError,)
