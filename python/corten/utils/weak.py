"""Weak references that are compared by identity, and dictionaries whose keys are held by them.

Tensors are compared element by element, so that ``weakref.WeakKeyDictionary`` is not for them.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Mapping, MutableMapping

from corten._C import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that equals those to the same object; a dead one equals only itself."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, its = self(), other()
        return self is other if mine is None or its is None else mine is its

    def __ne__(self, other):
        return not self == other


class _WeakHashRef(weakref.ref):
    """A weak reference with the hash of its object, compared as the objects are."""

    __slots__ = ("_hash",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._hash = hash(key)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        mine, its = self(), other()
        return self is other if mine is None or its is None else mine == its


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary that forgets what belongs to an object when the object is freed."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type

        def remove(reference, owner=weakref.ref(self)):
            holder = owner()
            if holder is not None:
                holder.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __len__(self):
        return len(self.data)

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def items(self):
        """Pairs of the objects that live and what belongs to them. A key may die meanwhile, so that the walk is
        over a copy."""
        for reference, value in list(self.data.items()):
            key = reference()
            if key is not None:
                yield key, value

    def keys(self):
        """The objects that live."""
        return (key for key, _ in self.items())

    __iter__ = keys

    def values(self):
        """What belongs to objects that live."""
        return (value for _, value in self.items())

    def keyrefs(self):
        """The references; some may be dead by the time they are used."""
        return list(self.data)

    def popitem(self):
        """Takes the pair that came last."""
        while self.data:
            reference, value = self.data.popitem()
            key = reference()
            if key is not None:
                return key, value
        raise KeyError("popitem(): dictionary is empty")

    def pop(self, key, *default):
        """Takes what belongs to an object."""
        return self.data.pop(self.ref_type(key), *default)

    def get(self, key, default=None):
        """What belongs to an object, or the default."""
        return self.data.get(self.ref_type(key), default)

    def setdefault(self, key, default=None):
        """What belongs to an object, which is the default from now on if there was nothing."""
        return self.data.setdefault(self.ref_type(key, self._remove), default)

    def update(self, dict=None, **kwargs):
        """Adds the pairs of another dictionary."""
        for key, value in getattr(dict or {}, "items", lambda: dict)():
            self[key] = value
        for key, value in kwargs.items():
            self[key] = value

    def copy(self):
        """Another dictionary of the same keys and values."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo):
        other = type(self)(None, self.ref_type)
        for key, value in self.items():
            other[key] = copy.deepcopy(value, memo)
        return other

    def __or__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        joined = type(self)(None, self.ref_type)
        joined.update(other)
        joined.update(self)
        return joined

    def __ior__(self, other):
        self.update(other)
        return self

    def __eq__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None


#: The same, as it is called where keys are tensors.
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
