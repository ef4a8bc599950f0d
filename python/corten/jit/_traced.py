"""``trace`` and ``trace_module``: modules and functions that repeat what a call with examples did."""

from __future__ import annotations

import functools
import warnings

import corten
from corten.jit import _running
from corten.jit._classes import Unit
from corten.jit._modules import LoadedModule
from corten.jit._scripted import ScriptModule, TopLevelTracedModule, as_script_function, scripted
from corten.jit._program import Program
from corten.jit._structure import ClassText, Structure, qualifier_of, short_name
from corten.jit._tracing import Tracer, parameters_of, traced_text
from corten.jit._types import BOOL
from corten.utils._pytree import tree_leaves, tree_map

#: The version that code of today is written in.
VERSION = 10


class _TracedProgram(Program):
    """A program of traced methods, in which those of compiled modules may be called."""

    def __init__(self):
        super().__init__()
        self._compiled = set()

    def _fill(self, found, module):
        if id(module) in self._compiled:
            super()._fill(found, module)
        else:
            Structure._fill(self, found, module)

    def compile_inside(self, module):
        """Compiles ``forward`` of a module, and what it calls."""
        if id(module) in self._compiled:
            return
        for inner in module.modules():
            self._compiled.add(id(inner))
            if id(inner) in self._of_modules:
                super()._fill(self._of_modules[id(inner)], inner)
        self.method(module, "forward")


def trace(
    func=None, example_inputs=None, optimize=None, check_trace=True, check_inputs=None,
    check_tolerance=1e-05, strict=True, _force_outplace=False, _module_class=None,
    _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True,
):
    """A module or function that makes the operators again that a call with examples made.

    Python's own decisions, and values that were taken out of tensors, stay as they were in that call. Sizes
    of tensors that are passed on to operators are computed anew.

    Args:
        func: A module or a function of tensors.
        example_inputs: A tensor, or a tuple of the arguments.
        check_trace: Whether the result is compared with that of the call.
        check_tolerance: How far results may differ then.
        example_kwarg_inputs: Arguments by name, instead of the others.
    """
    if func is None:
        return lambda function: trace(function, example_inputs)
    if isinstance(func, ScriptModule) and not isinstance(func, TopLevelTracedModule):
        return func
    if example_kwarg_inputs is None and example_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict" if example_inputs is None else "no examples")
    if isinstance(func, corten.nn.Module):
        given = example_inputs if example_kwarg_inputs is None else example_kwarg_inputs
        return trace_module(func, {"forward": given}, check_trace=check_trace, check_tolerance=check_tolerance,
                            example_inputs_is_kwarg=example_kwarg_inputs is not None)
    owner = getattr(func, "__self__", None)
    if isinstance(owner, corten.nn.Module):
        if func.__name__ == "forward":
            return trace_module(owner, {"forward": example_inputs}, check_trace=check_trace)
        raise AttributeError(
            "trace doesn't support compiling individual module's functions.\nPlease use trace_module"
        )
    return _traced_function(func, *_arguments(func, example_inputs, example_kwarg_inputs), check_trace, check_tolerance)


def _arguments(function, examples, named):
    """The examples as a tuple, their names, and how the function is called with them."""
    if named is not None:
        names = list(named)
        return tuple(named.values()), names, lambda *values: function(**dict(zip(names, values)))
    examples = (examples,) if isinstance(examples, (corten.Tensor, dict)) else tuple(examples)
    target = function.forward if isinstance(function, corten.nn.Module) else function
    return examples, parameters_of(target, len(examples)), function


def _traced_function(function, examples, names, call, check, tolerance):
    structure = _TracedProgram()
    tracer = Tracer(structure)
    short = short_name(function)
    full = structure.unique(qualifier_of(function), short)
    checks = _Check(None, examples, tolerance)
    text = traced_text(tracer, call, short, examples, names, None)
    structure.functions[full] = text
    unit = Unit(structure.sources(), structure.constants, VERSION, LoadedModule)
    run = _running.entry(unit.find_value(full))
    functools.update_wrapper(run, function, ("__name__", "__doc__", "__module__"))
    run.__dict__.pop("__wrapped__", None)
    run._saved_form = lambda: _placeholder(structure, full, unit, tracer)
    if check:
        checks.compare(run, call)
    return as_script_function(run)


def _placeholder(structure, full, unit, tracer=None):
    """A module whose ``forward`` is a function: what archives of functions hold."""
    if tracer is not None and tracer.refusal:
        raise RuntimeError(f"Could not export the trace: {tracer.refusal}")
    made = ClassText("__torch__.PlaceholderModule")
    made.attributes["training"] = BOOL
    function = unit.find_value(full)
    signature = function._script_signature
    given = "".join(f", {one}" for one in _declarations(signature))
    made.methods["forward"] = (
        f"def forward(self: __torch__.PlaceholderModule{given}):\n  return {full}({', '.join(signature.names)}, )\n"
    )
    sources = dict(unit.sources)
    sources["code/__torch__.py"] = sources.get("code/__torch__.py", "") + made.text()
    unit = Unit(sources, unit.constants, VERSION, LoadedModule)
    module = LoadedModule(unit.find_class(made.name))
    return module, unit


def _declarations(signature):
    """The arguments of a function with their types and defaults."""
    import ast

    arguments = signature.node.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    for one, kind, default in zip(arguments.args, signature.kinds, defaults):
        yield f"{one.arg}: {kind}" + ("" if default is None else f"={ast.unparse(default)}")


def trace_module(
    mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-05,
    strict=True, _force_outplace=False, _module_class=None, _compilation_unit=None,
    example_inputs_is_kwarg=False, _store_inputs=True,
):
    """A module with the same parameters, whose methods make the operators again that calls with their
    examples made.

    Args:
        mod: The module.
        inputs: The examples by the names of methods.
    """
    if not isinstance(mod, corten.nn.Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    made = scripted(mod, TopLevelTracedModule)
    structure = _TracedProgram()
    text = structure.class_of(made)
    checks, refusal = [], None
    for name, given in inputs.items():
        function = mod if name == "forward" else getattr(mod, name)
        named = given if example_inputs_is_kwarg else None
        examples, names, call = _arguments(function, None if named is not None else given, named)
        tracer = Tracer(structure, mod)
        check = _Check(mod, examples, check_tolerance)
        text.methods[name] = traced_text(tracer, call, name, examples, names, text.name)
        refusal = refusal or tracer.refusal
        checks.append((name, check, call))
    unit = Unit(structure.sources(), structure.constants, VERSION, LoadedModule)
    structure.give_classes(unit, made)
    vars(made)["_trace_refusal"] = refusal
    for name, check, call in checks if check_trace else ():
        check.compare(getattr(made, name), call)
    return made


def _kept(value):
    """A copy of an example, which the call may change."""
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, corten.Tensor) else value


class _Check:
    """The state in which a call was traced, in which it is repeated to compare the results."""

    def __init__(self, module, examples, tolerance):
        self.module, self.tolerance = module, tolerance
        self.state = corten.random.get_rng_state()
        self.examples = tree_map(_kept, examples)

    def compare(self, function, call):
        """Repeats the call and the trace of it; warns of results that differ."""
        buffers = [] if self.module is None else [(one, one.detach().clone()) for one in self.module.buffers()]
        after = corten.random.get_rng_state()
        results = []
        try:
            for one in (call, function):
                corten.random.set_rng_state(self.state)
                results.append(one(*tree_map(_kept, self.examples)))
                with corten.no_grad():
                    for buffer, before in buffers:
                        buffer.copy_(before)
        finally:
            corten.random.set_rng_state(after)
        expected, found = results
        tensors = [one for one in tree_leaves(_without_none(expected)) if isinstance(one, corten.Tensor)]
        for number, (a, b) in enumerate(zip(tree_leaves(found), tensors), 1):
            try:
                corten.testing.assert_close(
                    a.detach(), b.detach(), rtol=self.tolerance, atol=self.tolerance * 10, equal_nan=True
                )
            except AssertionError as error:
                _warn_of(number, error)


def _without_none(value):
    return dict(value) if isinstance(value, dict) else value


def _warn_of(number, error):
    from corten.jit import TracerWarning

    warnings.warn(
        f"Output nr {number}. of the traced function does not match the corresponding output of the Python function. "
        f"Detailed error:\n{error}", TracerWarning, stacklevel=5,
    )


