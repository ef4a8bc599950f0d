"""Keys of the dispatcher as Python objects: sets of them, those of tensors and of the thread, and what operators
have kernels for."""

from __future__ import annotations

import enum

from corten import _C

_WORD = (1 << 64) - 1
_RANGES = ("Dense", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "AutogradFunctionality")


def _numbers():
    """The keys with PyTorch's numbers; those that PyTorch does not have come last."""
    own = ("NegativeStrides", "Named")
    found, number, later = {}, 0, []
    for name in _C._dispatch_key_names():
        if name in own:
            later.append(name)
            continue
        kind = next((kind for kind in _RANGES if name == ("" if kind == "Dense" else _prefix(kind)) + "CPU"), None)
        if kind is not None:
            # Behind the functionalities comes their end.
            number += kind == "Dense"
            found[f"StartOf{kind}Backends"] = number
            number += 1
        found[name] = number
        kind = next((kind for kind in _RANGES if name == ("" if kind == "Dense" else _prefix(kind)) + "Meta"), None)
        if kind is not None:
            # The end of a range has the number of its last key.
            found[f"EndOf{kind}Backends"] = number
        number += 1
    for place, name in enumerate(later):
        found[name] = number + place
    return found


def _prefix(kind):
    return "Autograd" if kind == "AutogradFunctionality" else kind


DispatchKey = enum.Enum("DispatchKey", _numbers(), module=__name__)
DispatchKey.__doc__ = "A key of the dispatcher."
DispatchKey.__int__ = DispatchKey.__index__ = lambda key: key.value


def _signed(word):
    word &= _WORD
    return word - (1 << 64) if word >> 63 else word


def _word_of(key):
    name = key.name if isinstance(key, DispatchKey) else key
    if name.startswith(("StartOf", "EndOf")):
        return 0
    return _C._keyset_of(name) & _WORD


#: The bits of functionalities: removing keys leaves those of backends.
_FUNCTIONALITIES = _WORD & ~0xFFFF


class DispatchKeySet:
    """Some keys of the dispatcher."""

    __slots__ = ("_word",)

    def __init__(self, keys=()):
        if isinstance(keys, DispatchKeySet):
            self._word = keys._word
        elif isinstance(keys, (DispatchKey, str)):
            self._word = _word_of(_parsed(keys))
        else:
            self._word = 0
            for key in keys:
                self._word |= _word_of(key)

    @staticmethod
    def from_raw_repr(word):
        """The set that a number of 64 bits stands for."""
        made = DispatchKeySet()
        made._word = word & _WORD
        return made

    def raw_repr(self):
        """The set as a number of 64 bits."""
        return self._word

    def has(self, key):
        """Whether the key is one of them."""
        wanted = _word_of(key)
        return bool(wanted) and self._word & wanted == wanted

    def has_all(self, others):
        """Whether all keys of another set are in this one."""
        return self._word & others._word == others._word

    def has_any(self, others):
        """Whether a functionality of another set is in this one."""
        return bool(self._word & others._word & _FUNCTIONALITIES)

    def add(self, key):
        """These keys and another one."""
        return self | DispatchKeySet(key)

    def remove(self, key):
        """These keys without one."""
        return self - DispatchKeySet(key)

    def highestPriorityTypeId(self):
        """The key whose kernel is called."""
        return DispatchKey[_C._keyset_highest(_signed(self._word))]

    def __or__(self, other):
        return DispatchKeySet.from_raw_repr(self._word | other._word)

    def __and__(self, other):
        return DispatchKeySet.from_raw_repr(self._word & other._word)

    def __xor__(self, other):
        return DispatchKeySet.from_raw_repr(self._word ^ other._word)

    def __sub__(self, other):
        return DispatchKeySet.from_raw_repr(self._word & ~(other._word & _FUNCTIONALITIES))

    def __bool__(self):
        return bool(self._word)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._word == other._word

    def __hash__(self):
        return hash(self._word)

    def __iter__(self):
        names = _C._keyset_names(_signed(self._word))
        return iter(sorted((DispatchKey[name] for name in names), key=_priority))

    def __repr__(self):
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


def _priority(key):
    """Functionalities in their order, and the backends of each."""
    return _to_functionality_key(key).value, key.value


def _set_of(keys):
    return keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)


class _Guard:
    """A region with other keys of the thread."""

    def _sets(self, include, exclude):
        raise NotImplementedError

    def __enter__(self):
        include, exclude = _C._tls_key_sets()
        self._before = include, exclude
        changed = self._sets(include & _WORD, exclude & _WORD)
        _C._set_tls_key_sets(*(_signed(word) for word in changed))
        return self

    def __exit__(self, *error):
        _C._set_tls_key_sets(*self._before)


class _ExcludeDispatchKeyGuard(_Guard):
    """A region in which calls pass keys by."""

    def __init__(self, keys):
        self._keys = _set_of(keys)

    def _sets(self, include, exclude):
        return include, exclude | self._keys._word & _FUNCTIONALITIES


class _IncludeDispatchKeyGuard(_Guard):
    """A region in which all calls arrive at keys."""

    def __init__(self, keys):
        self._keys = _set_of(keys)

    def _sets(self, include, exclude):
        return include | self._keys._word, exclude


class _SetExcludeDispatchKeyGuard(_Guard):
    """A region in which calls pass a key by, or do not."""

    def __init__(self, key, excluded):
        self._word, self._excluded = _word_of(key) & _FUNCTIONALITIES, excluded

    def _sets(self, include, exclude):
        return include, exclude | self._word if self._excluded else exclude & ~self._word


class _ForceDispatchKeyGuard(_Guard):
    """A region with the given keys, in place of those of the thread."""

    def __init__(self, include=None, exclude=None):
        self._given = None if include is None else (include.raw_repr(), exclude.raw_repr())

    def _sets(self, include, exclude):
        return (include, exclude) if self._given is None else self._given


class _PreserveDispatchKeyGuard(_ForceDispatchKeyGuard):
    """A region behind which the thread has the keys that it had before."""


_AUTOGRAD = ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor")


class _AutoDispatchBelowAutograd(_ExcludeDispatchKeyGuard):
    """A region in which calls pass autograd by."""

    def __init__(self):
        super().__init__([DispatchKey[name] for name in _AUTOGRAD])


class _AutoDispatchBelowADInplaceOrView(_ExcludeDispatchKeyGuard):
    """A region in which calls pass autograd and the bookkeeping of views and versions by."""

    def __init__(self):
        super().__init__([DispatchKey[name] for name in (*_AUTOGRAD, "ADInplaceOrView")])


class _RestorePythonTLSSnapshot(_Guard):
    """A region in ``__torch_dispatch__`` in which calls are recorded for differentiation, as outside."""

    def _sets(self, include, exclude):
        word = 0
        for name in (*_AUTOGRAD, "ADInplaceOrView"):
            word |= _C._keyset_of(name)
        return include, exclude & ~word


class _DisableTorchDispatch(_ExcludeDispatchKeyGuard):
    """A region in which calls pass modes and classes of tensors by."""

    def __init__(self):
        super().__init__([DispatchKey.Python, DispatchKey.PythonTLSSnapshot])


def _dispatch_keys(tensor):
    """The keys of a tensor."""
    return DispatchKeySet.from_raw_repr(_C._key_set(tensor))


def _dispatch_tls_local_include_set():
    """The keys at which all calls of the thread arrive."""
    return DispatchKeySet.from_raw_repr(_C._tls_key_sets()[0])


def _dispatch_tls_local_exclude_set():
    """The keys that calls of the thread pass by."""
    return DispatchKeySet.from_raw_repr(_C._tls_key_sets()[1])


def _parsed(key):
    return _dispatch_key_parse(key) if isinstance(key, str) else key


def _dispatch_tls_is_dispatch_key_included(key):
    """Whether all calls of the thread arrive at a key."""
    return _dispatch_tls_local_include_set().has(key)


def _dispatch_tls_is_dispatch_key_excluded(key):
    """Whether calls of the thread pass a key by."""
    return bool(_C._tls_key_sets()[1] & _word_of(key) & _FUNCTIONALITIES)


def _changed(word, key, present):
    return _signed(word | _word_of(key) if present else word & ~(_word_of(key) & _FUNCTIONALITIES))


def _dispatch_tls_set_dispatch_key_included(key, included):
    """Lets all calls of the thread arrive at a key, or no longer."""
    include, exclude = _C._tls_key_sets()
    _C._set_tls_key_sets(_changed(include, key, included), exclude)


def _dispatch_tls_set_dispatch_key_excluded(key, excluded):
    """Lets calls of the thread pass a key by, or no longer."""
    include, exclude = _C._tls_key_sets()
    _C._set_tls_key_sets(include, _changed(exclude, key, excluded))


def _meta_in_tls_dispatch_include():
    """Whether all calls of the thread arrive at the meta device."""
    return bool(_C._tls_key_sets()[0] & (1 << 15))


def _set_meta_in_tls_dispatch_include(included):
    """Lets all calls of the thread arrive at the meta device, or no longer."""
    include, exclude = _C._tls_key_sets()
    include = include | 1 << 15 if included else include & ~(1 << 15)
    _C._set_tls_key_sets(_signed(include), exclude)


def _dispatch_key_parse(name):
    """The key of a name.

    Raises:
        RuntimeError: There is none.
    """
    found = None if name == "Named" else DispatchKey.__members__.get(name)
    if found is None:
        raise RuntimeError(f"could not parse dispatch key: {name}")
    return found


_parse_dispatch_key = _dispatch_key_parse


def _dispatch_key_name(key):
    """The name of a key."""
    return _parsed(key).name


def _dispatch_num_backends():
    """How many backends there are keys for."""
    return 16


def _dispatch_keyset_full():
    """All keys."""
    own = _word_of("NegativeStrides") | _word_of("Named")
    return DispatchKeySet.from_raw_repr(_C._keyset_full() & _WORD & ~own)


def _dispatch_keyset_full_after(key):
    """The keys that a call can arrive at after a key."""
    own = _word_of("NegativeStrides") | _word_of("Named")
    return DispatchKeySet.from_raw_repr(_C._keyset_after(key.name) & _WORD & ~own)


def _dispatch_keyset_to_string(keys):
    """A set of keys as a text."""
    return repr(keys)


_BACKENDS = ("CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA", "PrivateUse1",
             "PrivateUse2", "PrivateUse3", "Meta")


def _functionality_to_backend_keys(key):
    """The keys of a functionality, one for each backend."""
    if key.name not in _RANGES:
        return [key]
    prefix = "" if key.name == "Dense" else _prefix(key.name)
    return [DispatchKey[prefix + backend] for backend in _BACKENDS]


def _dispatch_get_backend_keyset_from_autograd(key):
    """The keys of the backends that an autograd key records for."""
    key = _parsed(key)
    if key is DispatchKey.AutogradOther:
        return DispatchKeySet([DispatchKey[name] for name in ("FPGA", "Vulkan", "Metal", "MkldnnCPU", *(
            f"{kind}{backend}" for kind in ("Quantized", "Sparse", "SparseCsr") for backend in _BACKENDS))])
    if key.name.startswith("Autograd") and key.name[8:] in _BACKENDS:
        return DispatchKeySet(DispatchKey[key.name[8:]])
    return DispatchKeySet()


_ALIASES = ("Autograd", "CompositeImplicitAutograd", "FuncTorchBatchedDecomposition",
            "CompositeImplicitAutogradNestedTensor", "CompositeExplicitAutograd",
            "CompositeExplicitAutogradNonFunctional")


def _dispatch_is_alias_key(key):
    """Whether a key stands for several keys."""
    return _parsed(key).name in _ALIASES


def _dispatch_is_included_in_alias(key, alias):
    """Whether a key is one of those that another key stands for."""
    key, alias = _parsed(key).name, _parsed(alias).name
    autograd = key.startswith("Autograd") and key not in ("Autograd", "AutogradFunctionality")
    if alias == "Autograd":
        return autograd
    backend = key in _BACKENDS or key.startswith(("Quantized", "Sparse", "MkldnnCPU", "FPGA", "Vulkan", "Metal"))
    nested = key.startswith("NestedTensor") or key == "AutogradNestedTensor"
    if alias == "CompositeImplicitAutograd":
        return key != "Undefined" and not nested and (autograd or backend) or key == "Undefined"
    if alias == "CompositeImplicitAutogradNestedTensor":
        return nested
    if alias in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"):
        return backend or key.startswith("NestedTensor")
    return alias == "FuncTorchBatchedDecomposition" and key == "FuncTorchBatched"


def _dispatch_key_for_device(kind):
    """The name of the key of a device's tensors."""
    name = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "privateuseone": "PrivateUse1", "lazy": "Lazy",
            _C._get_privateuse1_backend_name(): "PrivateUse1"}.get(kind)
    return name or kind.upper()


def _dispatch_isTensorSubclassLike(tensor):
    """Whether a tensor takes calls over, or belongs to a transform."""
    word = _C._key_set(tensor)
    names = ("Python", "FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize", "Batched")
    return any(word & _word_of(name) & _FUNCTIONALITIES for name in names)


def _to_functionality_key(key):
    """The functionality of a key."""
    for kind in _RANGES:
        prefix = "" if kind == "Dense" else _prefix(kind)
        if key.name.startswith(prefix) and key.name[len(prefix):] in _BACKENDS:
            return DispatchKey[kind]
    return key


__all__ = [name for name in dir() if name.startswith(("_dispatch_", "_AutoDispatch", "Dispatch")) or name in (
    "_ExcludeDispatchKeyGuard", "_IncludeDispatchKeyGuard", "_SetExcludeDispatchKeyGuard", "_ForceDispatchKeyGuard",
    "_PreserveDispatchKeyGuard", "_RestorePythonTLSSnapshot", "_DisableTorchDispatch", "_parse_dispatch_key",
    "_meta_in_tls_dispatch_include", "_set_meta_in_tls_dispatch_include", "_functionality_to_backend_keys",
    "_to_functionality_key",
)]
