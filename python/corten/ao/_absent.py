"""Names of quantization that programs import: classes that say, when they are made, that they are absent."""

from __future__ import annotations

from corten import nn


def _class(module, name):
    full = f"{module.replace('corten', 'torch', 1)}.{name}"

    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{full}: products with block-sparse quantized weights are not supported")

    members = {"__init__": refuse, "__module__": module, "__doc__": f"Not supported: making a {name} raises."}
    return type(name, (nn.Module,), members)


def classes(module, names):
    """A module's ``__getattr__`` that makes these classes when they are first asked for."""

    def __getattr__(name):
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        import sys

        made = _class(module, name)
        setattr(sys.modules[module], name, made)
        return made

    return __getattr__
