"""Checks of functions, and files and streams that close themselves."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import os
import warnings
from collections.abc import Iterable

__all__ = [
    "StreamWrapper", "get_file_binaries_from_pathnames", "get_file_pathnames_from_root",
    "match_masks", "validate_input_col", "validate_pathname_binary_tuple",
]


def validate_input_col(fn, input_col):
    """That a function takes as many positional arguments as there are columns.

    Raises:
        ValueError: It does not, or it has arguments by keyword that must be given.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a builtin that does not say what it takes
        return
    wanted = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    inner = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(inner, "__name__", repr(inner))
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    if keywords:
        raise ValueError(
            f"The function {name} takes {len(keywords)} non-default keyword-only parameters, which "
            "is not allowed."
        )
    surplus = any(p.default is p.empty for p in by_place[wanted:])
    if surplus or (len(by_place) < wanted and not _takes_more(parameters)):
        count, kind = len(by_place), "positional parameters"
        if len(parameters) < wanted:
            count, kind = len(parameters), "parameters"
        raise ValueError(f"The function {name} takes {count} {kind}, but {wanted} are required.")


def _takes_more(parameters):
    return any(p.kind == p.VAR_POSITIONAL for p in parameters)


def check_function(fn):
    """That something can be called; functions that cannot be pickled are warned of.

    Raises:
        TypeError: It cannot.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    if isinstance(fn, functools.partial):
        fn = fn.func
    if hasattr(fn, "__code__"):
        local = bool(fn.__code__.co_flags & inspect.CO_NESTED)
    else:
        local = "<locals>" in getattr(fn, "__qualname__", type(fn).__qualname__)
    kind = "Local" if local else "Lambda" if getattr(fn, "__name__", "") == "<lambda>" else None
    if kind is not None:
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or "
            "functools.partial instead.",
            stacklevel=3,
        )


def match_masks(name, masks):
    """Whether a name is like one of the patterns; without patterns every one is."""
    masks = [masks] if isinstance(masks, str) and masks else masks
    return not masks or any(fnmatch.fnmatch(name, mask) for mask in masks)


def get_file_pathnames_from_root(
    root, masks, recursive=False, abspath=False, non_deterministic=False
):
    """The files below a folder, or the file itself, whose names are like a pattern."""
    shown = os.path.abspath if abspath else str
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield shown(root)
        return

    def refuse(error):
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error

    for path, folders, files in os.walk(root, onerror=refuse):
        if not non_deterministic:
            files.sort()
            folders.sort()
        for name in files:
            if match_masks(name, masks):
                yield os.path.join(shown(path), name)
        if not recursive:
            return


def get_file_binaries_from_pathnames(pathnames, mode, encoding=None):
    """Names with the opened files."""
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    mode = mode if mode.startswith("r") else "r" + mode
    for pathname in pathnames:
        if not isinstance(pathname, str):
            raise TypeError(f"Expected string type for pathname, but got {type(pathname)}")
        yield pathname, StreamWrapper(open(pathname, mode, encoding=encoding))


def validate_pathname_binary_tuple(data):
    """That something is a pair of a name and a stream.

    Raises:
        TypeError: It is not.
    """
    from io import IOBase

    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(
            "pathname within the tuple should have string type pathname, but it is type "
            f"{type(data[0])}"
        )
    if not isinstance(data[1], (IOBase, StreamWrapper)):
        raise TypeError(
            "binary stream within the tuple should have IOBase orits subclasses as type, but it is "
            f"type {type(data[1])}"
        )


class StreamWrapper:
    """A stream that is closed when nobody has it any more; a parent, when its children are."""

    session_streams = {}
    debug_unclosed_streams = False

    def __init__(self, file_obj, parent_stream=None, name=None):
        self.closed = False
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(
                    f"Parent stream should be StreamWrapper, {type(parent_stream)} was given"
                )
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v, depth=0):
        """Closes the streams in lists, tuples and dictionaries."""
        if isinstance(v, StreamWrapper):
            v.close()
        elif depth < 10 and isinstance(v, (dict, list, tuple)):
            for item in v.values() if isinstance(v, dict) else v:
                cls.close_streams(item, depth + 1)

    def __getattr__(self, name):
        if name.startswith("__") or "file_obj" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def close(self, *args, **kwargs):
        """Closes the stream, and its parent if that waits for its last child."""
        if self.closed:
            return
        self.closed = True
        StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if parent.child_counter == 0 and parent.close_on_last_child:
                parent.close()
        if hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)

    def autoclose(self):
        """Closes the stream as soon as it has no open children."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self):
        return sorted({*self.__dict__, *dir(type(self)), *dir(self.file_obj)})

    def __del__(self):
        if "closed" in self.__dict__ and "parent_stream" in self.__dict__:
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self):
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, obj):
        self.__init__(obj)
