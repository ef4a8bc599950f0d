"""Settings of libraries that are absent: kept, since programs set them before they look."""

from __future__ import annotations

from contextlib import ContextDecorator


def flags_of(namespace, **defaults):
    """A class that sets settings, variables of a module, for a ``with`` block or a function."""

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

        def __exit__(self, kind, value, traceback):
            namespace.update(self.before.pop())

    return flags
