"""Settings of libraries that are absent: kept, since programs set them before they look."""

from __future__ import annotations

from contextlib import ContextDecorator


def flags_of(namespace, _changed=lambda: None, **defaults):
    """A class that sets settings, variables of a module, for a ``with`` block or a function; whoever uses them is
    told with ``_changed``."""

    class flags(ContextDecorator):
        """Sets the settings for a ``with`` block or a function."""

        def __init__(self, **values):
            unknown = values.keys() - defaults.keys()
            if unknown:
                raise TypeError(f"flags() got an unexpected keyword argument '{min(unknown)}'")
            self.values, self.before = {**defaults, **values}, []

        def __enter__(self):
            self.before.append({name: namespace[name] for name in self.values})
            namespace.update(self.values)
            _changed()

        def __exit__(self, kind, value, traceback):
            namespace.update(self.before.pop())
            _changed()

    return flags


class Precision:
    """The precision of 32-bit products of a kind of operators: kept, and without effect, since they are always
    computed as they are defined."""

    def __init__(self):
        self.fp32_precision = "none"

    def __setattr__(self, name, value):
        if name != "fp32_precision":
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)
