"""Annotations that TorchScript knows, under the names that packages import them by."""

from __future__ import annotations

import enum  # noqa: F401
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401

import corten._jit_internal as _internal
from corten._jit_internal import BroadcastingListCls, Future, is_dict, is_future, is_list, is_optional, is_tuple, is_union  # noqa: F401

BroadcastingList = BroadcastingListCls()
for _count in range(1, 7):
    globals()[f"BroadcastingList{_count}"] = getattr(_internal, f"BroadcastingList{_count}")


class Module:
    """A module of Python among the names of annotations."""

    def __init__(self, name, members):
        self.name, self.members = name, members

    def __getattr__(self, name):
        try:
            return self.members[name]
        except KeyError:
            raise RuntimeError(f"Module {self.name} has no member called {name}") from None
