"""Names of the compiler of modules that packages look at."""

from __future__ import annotations

from corten.jit._scripted import scripted as _scripted


class ConcreteTypeStore:
    """Types of modules that were compiled; none are kept here."""

    def __init__(self):
        self.type_store, self.methods_compiled = {}, set()


concrete_type_store = ConcreteTypeStore()


def create_script_module(nn_module, stubs_fn=None, share_types=True, is_tracing=False):
    """A module of TorchScript with the parameters of another."""
    return _scripted(nn_module)


def wrap_cpp_module(cpp_module):
    """The module itself: there is no other object behind it."""
    return cpp_module
