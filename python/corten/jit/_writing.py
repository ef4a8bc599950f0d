"""Writes archives of TorchScript, as PyTorch reads them."""

from __future__ import annotations

import enum
import io
import os

from corten._records import RecordWriter
from corten.jit import _running
from corten.jit._pickle import Writer
from corten.jit._types import Type

OPTIONAL_BOOL = Type("Optional", [Type("bool")])


def class_of(value):
    """The name of an object's class and its attributes with their types; of enums and tuples their values."""
    if isinstance(value, enum.Enum):
        return type(value)._script_enum, (value.value,)
    if isinstance(value, tuple):
        return type(value)._script_name, tuple(value)
    declared = getattr(value, "_script_type", None)
    if declared is None:
        raise RuntimeError(f"a {type(value).__name__} has no place in an archive of TorchScript")
    if "__getstate__" in declared.methods:
        return declared.name, State(_running.method(value, "__getstate__"))
    attributes = {}
    for name, kind in declared.attributes.items():
        item = getattr(value, name, None) if name != "_is_full_backward_hook" else None
        attributes[name] = item, kind
    return declared.name, attributes


class State:
    """What ``__getstate__`` gave."""

    def __init__(self, value):
        self.value = value


def write(file, name, value, unit, extra_files=None):
    """Writes an archive: ``value`` is the module, ``unit`` has the code and the constants."""
    with RecordWriter(file, name) as writer:
        _write_pickle(writer, "data", value)
        for source, text in unit.sources.items():
            writer.write_record(source, text)
        _write_pickle(writer, "constants", tuple(unit.constants))
        for extra, content in (extra_files or {}).items():
            writer.write_record(f"extra/{extra}", content)
        writer.write_record("byteorder", b"little")
        writer.write_record("version", f"{unit.version}\n".encode())


def _write_pickle(writer, name, value):
    pickler = Writer(class_of)
    writer.write_record(f"{name}.pkl", pickler.dump(value))
    for key, storage in pickler.storages.values():
        if storage.device.type != "meta":
            writer.write_record(f"{name}/{key}", storage)


def save(m, f, _extra_files=None):
    """Writes a module or function that was scripted, traced or loaded, so that PyTorch, and :func:`load`,
    read it.

    Args:
        m: The module or function.
        f: A path, or a file that is open for writing.
        _extra_files: A dictionary of further files by their names, kept in the archive.
    """
    value, unit = saved_form(m)
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with open(path, "wb") as file:
            write(file, os.path.splitext(os.path.basename(path))[0] or "archive", value, unit, _extra_files)
    else:
        # Zip files of a stream that cannot be sought in are written to memory first.
        buffer = save_to_buffer(m, _extra_files, (value, unit))
        f.write(buffer)


def save_to_buffer(m, _extra_files=None, form=None):
    """The bytes of the archive of a module or function."""
    value, unit = form or saved_form(m)
    buffer = io.BytesIO()
    write(buffer, "archive", value, unit, _extra_files)
    return buffer.getvalue()


def saved_form(m):
    """The object that an archive holds for a module or function, and the code that it needs.

    Raises:
        RuntimeError: It was not scripted or traced, or cannot be compiled.
    """
    form = getattr(m, "_saved_form", None)
    if form is None:
        raise RuntimeError(f"a {type(m).__name__} was neither scripted nor traced, so that it cannot be saved as TorchScript")
    return form()




def operators_of(m):
    """The operators that the code of a module or function calls, sorted."""
    import ast

    from corten.jit._types import UnknownTypeError, dotted

    found = set()
    for source, text in saved_form(m)[1].sources.items():
        for node in ast.walk(ast.parse(text, source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                try:
                    space, _, name = dotted(node.func).partition(".")
                except UnknownTypeError:
                    continue
                if space == "torch":
                    found.add(f"aten::{name}")
                elif space == "ops":
                    found.add(name.replace(".", "::", 1))
    return sorted(found)
