"""Checkpoints that keep the results of chosen operators and compute the others again."""

from __future__ import annotations

import enum
from collections import defaultdict

import corten
from corten import ops

from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map


class CheckpointPolicy(enum.Enum):
    """What becomes of the result of one call of an operator.

    The operators of ``MUST_`` are followed whatever a compiler would rather do; here they mean the
    same as those of ``PREFER_``.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = (
    CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD,
    CheckpointPolicy.PREFER_CPU_OFFLOAD,
)
#: Operators that are neither kept nor counted: they cost nothing.
SAC_IGNORED_OPS = {
    getattr(getattr(ops.aten, name), overload)
    for name in ("detach", "is_contiguous", "size", "stride", "dim", "numel", "storage_offset")
    if corten._C._op_overloads(f"aten::{name}")
    for overload in getattr(ops.aten, name).overloads()
    if name == "detach" or overload == "default"
}
_DIFFERENT = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend "
    "on global state that changed between forward and backward."
)
_COMPUTE, _TAKEN = object(), object()


class SelectiveCheckpointContext:
    """What a policy is told: ``op_output`` is the result of the call that it decides about."""

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """A result that waits for the backward pass."""

    def __init__(self, value):
        if isinstance(value, corten.Tensor):
            value = value.detach()
            self._version = value._version
        self._value = value

    def get(self, may_have_changed):
        """The result.

        Raises:
            RuntimeError: It was written to.
        """
        if isinstance(self._value, corten.Tensor) and not may_have_changed:
            if self._value._version != self._version:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated"
                )
        return self._value


class _Keeping(TorchDispatchMode):
    """The first time: keeps what the policy says."""

    def __init__(self, policy, storage):
        self._policy, self._storage = policy, storage

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        policy = self._policy(context, func, *args, **kwargs)
        kept = policy if isinstance(policy, bool) else policy in _SAVED
        self._storage[func].append(tree_map(_Kept, out) if kept else _COMPUTE)
        return out


class _Giving(TorchDispatchMode):
    """The second time: gives what was kept, and computes the rest."""

    def __init__(self, storage, may_have_changed):
        self._storage, self._may_have_changed = storage, may_have_changed
        self._counts = defaultdict(int)

    def __enter__(self):
        self._counts.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        place, kept = self._counts[func], self._storage.get(func)
        self._counts[func] += 1
        if kept is None:
            raise RuntimeError(
                f"{func} encountered during backward but not found in storage. {_DIFFERENT}"
            )
        if place >= len(kept):
            raise RuntimeError(
                f"{func} invocation index {place} encountered during backward but not found in "
                f"storage. {_DIFFERENT}"
            )
        entry = kept[place]
        if entry is _COMPUTE:
            return func(*args, **kwargs)
        if entry is _TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        kept[place] = _TAKEN
        return tree_map(lambda one: one.get(self._may_have_changed), entry)


def _policy_of(listed):
    """The policy that keeps the results of some operators."""
    for op in listed:
        if not isinstance(op, ops.Overload):
            hint = ""
            if isinstance(op, ops.Packet):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload. For example, if "
                    "you have `torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                )
            raise ValueError(
                f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. "
                f"{hint}"
            )

    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in listed else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """The two contexts that :func:`checkpoint` takes as ``context_fn`` (through
    ``functools.partial``).

    The policy is a list of overloads whose results are kept, or a function
    ``policy(context, op, *args, **kwargs)`` that returns a :class:`CheckpointPolicy` or a bool. It
    is asked during the first pass only.

    Raises:
        ValueError: A member of the list is no overload.
        TypeError: It is neither a list nor a function.
    """
    if isinstance(policy_fn_or_list, list):
        policy = _policy_of(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage = defaultdict(list)
    return _Keeping(policy, storage), _Giving(storage, allow_cache_entry_mutation)
