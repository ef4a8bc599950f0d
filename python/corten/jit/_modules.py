"""Modules of archives: they have the parameters, buffers, attributes and methods that their class of
TorchScript declares."""

from __future__ import annotations

import copy

import corten
from corten.jit import _running
from corten.jit._scripted import RecursiveScriptModule


class LoadedModule(RecursiveScriptModule):
    """A module of an archive, whose methods are compiled from the archive's code."""

    def __init__(self, declared):
        super().__init__()
        vars(self)["_script_type"] = declared

    def _get_name(self):
        return "RecursiveScriptModule"

    def extra_repr(self):
        """What stands in brackets behind the name of the class."""
        return f"original_name={self.original_name}"

    @property
    def original_name(self):
        """The name of the class that it was made of."""
        return self._script_type.short

    @property
    def code(self):
        """The source of ``forward``."""
        return self.forward.code

    @property
    def code_with_constants(self):
        """The source of ``forward``, and the constants that it refers to."""
        constants = self._script_type.unit.constants
        return self.code, {f"c{number}": value for number, value in enumerate(constants)}

    @property
    def forward(self):
        """The method ``forward``."""
        return self._method("forward")

    @property
    def forward_magic_method(self):
        """Methods of Python's own names, which classes of TorchScript may declare."""
        return self._method

    def _method(self, name):
        found = self._script_type.methods.get(name)
        if found is None:
            raise AttributeError(f"'RecursiveScriptModule' object has no attribute '{name}'")
        return _running.entry(found, self)

    def __getattr__(self, name):
        declared = self.__dict__.get("_script_type")
        if declared is not None:
            if name in declared.methods:
                return self._method(name)
            if name in declared.constants:
                return declared.constants[name]
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        declared = self.__dict__.get("_script_type")
        parameters = self.__dict__.get("_parameters")
        if declared is not None and parameters is not None and name in parameters and isinstance(value, corten.Tensor):
            if not isinstance(value, corten.nn.Parameter):
                parameters[name] = value
                return
        super().__setattr__(name, value)

    def _saved_form(self):
        return self, self._script_type.unit

    def define(self, source):
        """Adds methods from source in TorchScript."""
        from corten.jit._language import parsed

        for node in parsed(source, "<string>").body:
            self._script_type.methods.nodes[node.name] = node

    def copy(self):
        """A copy whose tensors are the same."""
        made = LoadedModule(self._script_type)
        for name, value in vars(self).items():
            vars(made)[name] = value.copy() if isinstance(value, dict) else value
        for name, child in self._modules.items():
            if isinstance(child, LoadedModule):
                made._modules[name] = child.copy()
        return made

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        made = memo[id(self)] = LoadedModule(self._script_type)
        for name, value in vars(self).items():
            if name != "_script_type":
                vars(made)[name] = copy.deepcopy(value, memo)
        return made

    def __reduce_ex__(self, protocol):
        raise RuntimeError("ScriptModules cannot be deepcopied using copy.deepcopy or saved using torch.save. Mixed "
                           "serialization of script and non-script modules is not supported. For purely script modules "
                           "use my_script_module.save(<filename>) instead.")

    def __len__(self):
        return _running.method(self, "__len__")

    def __bool__(self):
        return True

    def __contains__(self, key):
        return _running.method(self, "__contains__", key)

    def __getitem__(self, key):
        return _running.method(self, "__getitem__", key)

    def __iter__(self):
        return iter(_running.method(self, "__iter__"))

    def __dir__(self):
        return [*super().__dir__(), *self._script_type.methods]


def with_state(declared, state):
    """An object of a class with the attributes that an archive has of it."""
    if "__setstate__" in declared.methods:
        made = declared.empty()
        if declared.kind != "module":
            _running.method(made, "__setstate__", state)
            return made
        for name in (*declared.parameters, *declared.buffers):
            (made.register_parameter if name in declared.parameters else made.register_buffer)(name, None)
        _running.method(made, "__setstate__", state)
        return made
    if type(state) is not dict:
        raise RuntimeError(f"the state of a {declared.name[:100]} is no dictionary")
    missing = [name for name in declared.attributes if name not in state]
    if missing:
        raise RuntimeError(f"the archive has no value for the attribute {missing[0][:80]!r} of {declared.name[:100]}")
    made = declared.empty()
    for name, kind in declared.attributes.items():
        value = state[name]
        if not kind.accepts(value):
            raise RuntimeError(f"the attribute {name[:80]!r} of {declared.name[:100]} is no {kind}")
        if declared.kind == "module":
            _set(made, declared, name, value)
        else:
            vars(made)[name] = value
    return made


def _set(module, declared, name, value):
    if name in declared.parameters:
        if isinstance(value, corten.Tensor) and not isinstance(value, corten.nn.Parameter):
            # A tensor that several modules have becomes one parameter.
            known = declared.unit.parameters
            if id(value) not in known:
                known[id(value)] = corten.nn.Parameter(value.detach(), requires_grad=value.requires_grad), value
            value = known[id(value)][0]
        module._parameters[name] = value
    elif name in declared.buffers:
        module._buffers[name] = value
        module._non_persistent_buffers_set.discard(name)
    elif isinstance(value, corten.nn.Module):
        module._modules[name] = value
    else:
        vars(module)[name] = value
