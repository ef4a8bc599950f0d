"""Trading time for memory: a part of the graph is computed again when its gradients are needed,
and what it saved is not kept until then."""

from __future__ import annotations

import contextlib
import threading
import uuid
import warnings
import weakref

import corten
from corten import _C

from ._selective import (
    SAC_IGNORED_OPS, CheckpointPolicy, SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
    "GraphExecGroup", "SAC_IGNORED_OPS", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
    "set_device_states",
]

_REFERENCE = (
    "In a future release, calling checkpoint without use_reentrant will raise an exception. "
    "use_reentrant=False is recommended, but if you need to preserve the current default "
    "behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
    "differences between the two variants."
)


class CheckpointError(RuntimeError):
    """The part that was computed again is not what it was the first time."""


class DefaultDeviceType:
    """The device type whose random states are kept when no tensor names another."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        """Sets the device type."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type():
        """The device type."""
        return DefaultDeviceType._default_device_type


class _Settings(threading.local):
    early_stop = None
    debug = None
    group = None


class GraphExecGroup:
    """A context whose backward passes compute a checkpointed part again once for all of them. They
    must not need the same saved tensor twice. For ``use_reentrant=False``."""

    def __enter__(self):
        if _settings.group is not None:
            raise RuntimeError(
                "GraphExecGroup contexts cannot be nested. "
                f"Already in group {_settings.group}"
            )
        _settings.group = self

    def __exit__(self, *error):
        _settings.group = None

    @classmethod
    def _get_current_group(cls):
        return _settings.group


_settings = _Settings()


@contextlib.contextmanager
def _setting(name, value):
    before = getattr(_settings, name)
    setattr(_settings, name, value)
    try:
        yield
    finally:
        setattr(_settings, name, before)


def set_checkpoint_early_stop(enable):
    """A context in which computing again ends (or not) with the last tensor that is needed."""
    return _setting("early_stop", enable)


def set_checkpoint_debug_enabled(enabled):
    """A context in which checkpoints that differ say more, whatever their ``debug``."""
    return _setting("debug", enabled)


def noop_context_fn():
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs):
    """The inputs, tensors as leaves of a graph of their own."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            + type(inputs).__name__
        )
    result = []
    for item in inputs:
        if isinstance(item, corten.Tensor):
            detached = item.detach()
            detached.requires_grad = item.requires_grad
            item = detached
        result.append(item)
    return tuple(result)


def check_backward_validity(inputs):
    """Warns when no input requires gradients: then nothing inside gets any."""
    tensors = (item for item in inputs if isinstance(item, corten.Tensor))
    if not any(tensor.requires_grad for tensor in tensors):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def get_device_states(*args):
    """The accelerators that tensors among the arguments are on, and their random states."""
    devices = sorted(
        {item.get_device() for item in args
         if isinstance(item, corten.Tensor) and item.device.type not in ("cpu", "meta")}
    )
    return devices, [corten.cuda.get_rng_state(device) for device in devices]


def set_device_states(devices, states, *, device_type=None):
    """Puts random states back that :func:`get_device_states` gave."""
    for device, state in zip(devices, states):
        corten.cuda.set_rng_state(state, device)


class _RandomState:
    """The random states at the start of a part, to compute it again with the same numbers."""

    def __init__(self, args, preserve):
        self.preserve = preserve
        if preserve:
            self.cpu = corten.get_rng_state()
            self.devices = get_device_states(*args)

    @contextlib.contextmanager
    def again(self):
        """A context with these states; those outside of it stay as they are."""
        if not self.preserve:
            yield
            return
        before = corten.get_rng_state()
        others = [corten.cuda.get_rng_state(device) for device in self.devices[0]]
        try:
            corten.set_rng_state(self.cpu)
            set_device_states(*self.devices)
            yield
        finally:
            corten.set_rng_state(before)
            set_device_states(self.devices[0], others)


class CheckpointFunction(corten.autograd.Function):
    """The reentrant kind: the backward pass of the whole is one of its own inside."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random = _RandomState(args, preserve_rng_state)
        ctx.inputs = [None if isinstance(item, corten.Tensor) else item for item in args]
        ctx.places = [i for i, item in enumerate(args) if isinstance(item, corten.Tensor)]
        ctx.save_for_backward(*(args[place] for place in ctx.places))
        with corten.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *args):
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = tensor
        with ctx.random.again(), corten.enable_grad():
            inputs = detach_variable(tuple(inputs))
            outputs = ctx.run_function(*inputs)
        if isinstance(outputs, corten.Tensor):
            outputs = (outputs,)
        pairs = [
            (output, grad) for output, grad in zip(outputs, args)
            if isinstance(output, corten.Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        corten.autograd.backward([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        gradients = (item.grad if isinstance(item, corten.Tensor) else None for item in inputs)
        return (None, None, *gradients)


class _Handle:
    """What is saved in place of a tensor."""


class _Stop(Exception):
    """Everything needed has been computed again."""


def _metadata(tensor):
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class _Part:
    """One checkpointed part: the handles that its forward pass saved, and what computing it again
    gave for each, one set per backward pass."""

    def __init__(self, compute, early_stop, compare, debug):
        self.compute, self.early_stop, self.compare, self.debug = compute, early_stop, compare, debug
        self.handles = []
        self.metadata = []
        self.found = {}
        self.complete = False

    def pack(self, tensor):
        handle = _Handle()
        self.handles.append(weakref.ref(handle))
        if self.compare:
            self.metadata.append(_metadata(tensor))
        handle.place = len(self.handles) - 1
        return handle

    def unpack(self, handle):
        task = GraphExecGroup._get_current_group() or _C._current_graph_task_id()
        if task == -1:
            # Outside of a backward pass, by reading an attribute of the node.
            task = uuid.uuid4().int
        if task not in self.found:
            self.found[task] = self.again()
        found = self.found[task]
        if handle.place not in found:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was either "
                "never recomputed, or already unpacked once. If you are calling ctx.saved_tensors "
                "in backward, make sure to do so only once. Otherwise please open an issue with "
                "details on your use case."
            )
        tensor = found.pop(handle.place)
        if not found:
            del self.found[task]
            self.found.pop(task, None)
        return tensor

    def again(self):
        """Computes the part again: the tensors that live handles stand for, by place."""
        found, seen = {}, [0]
        wanted = {i for i, handle in enumerate(self.handles) if handle() is not None}
        last = max(wanted, default=-1)

        def pack(tensor):
            place = seen[0]
            seen[0] += 1
            if place < len(self.handles) and place in wanted:
                found[place] = tensor.detach()
            if self.early_stop and place == last and seen[0] >= 1:
                raise _Stop
            return tensor.detach()

        def unpack(tensor):
            # Only for a backward pass inside of the part.
            return tensor

        hooks = corten.autograd.graph.saved_tensors_hooks(pack, unpack)
        try:
            with hooks, corten.enable_grad():
                self.compute()
        except _Stop:
            self.check(found, wanted)
            return found
        if seen[0] != len(self.handles):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.handles)}\n"
                f"Number of tensors saved during recomputation: {seen[0]}.\n{_TIP}"
            )
        self.check(found, wanted)
        return found

    def check(self, found, wanted):
        """Compares what was computed again with what was noted the first time."""
        if not self.compare:
            return
        lines = []
        for place in sorted(wanted & found.keys()):
            before, now = self.metadata[place], _metadata(found[place])
            if before != now:
                lines.append(
                    f"tensor at position {place}:\nsaved metadata: {before}\n"
                    f"recomputed metadata: {now}"
                )
        if lines:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass.\n" + "\n".join(lines)
                + f"\n.\n\n{_TIP}"
            )


_TIP = (
    "Tip: the function must save the same tensors each time it is called. It does not when it "
    "depends on state that has changed since, or on random numbers with preserve_rng_state=False."
)


def checkpoint(
    function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default",
    debug=False, early_stop=True, **kwargs,
):
    """Calls ``function``, and again in the backward pass instead of keeping what it saved.

    ``use_reentrant=False`` is the kind that supports everything autograd does. The random state
    at the start is kept and used again unless ``preserve_rng_state=False`` is given.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            + _REFERENCE, stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    checks = {"default": True, "none": False}
    if determinism_check not in checks:
        raise ValueError(
            f"determinism_check should be one of {list(checks)}, but got {determinism_check}"
        )
    if not corten.is_grad_enabled():
        return function(*args, **kwargs)
    forward_context, again_context = context_fn()
    random = _RandomState(args, preserve)

    def compute():
        with random.again(), again_context:
            function(*args, **kwargs)

    if _settings.early_stop is not None:
        early_stop = _settings.early_stop
    part = _Part(compute, early_stop, checks[determinism_check], debug)
    with corten.autograd.graph.saved_tensors_hooks(part.pack, part.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Calls modules one after another in ``segments`` checkpointed parts; the last one is not."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly. In a future release, we will raise an exception if use_reentrant "
            "is not passed. use_reentrant=False is recommended, but if you need to preserve the "
            "current default behavior, you can pass use_reentrant=True. Refer to docs for more "
            "details on the differences between the two variants.", stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if isinstance(functions, corten.nn.Sequential):
        functions = list(functions.children())

    def run(start, end):
        def forward(value):
            for place in range(start, end + 1):
                value = functions[place](value)
            return value

        return forward

    size, end = len(functions) // segments, -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return run(end + 1, len(functions) - 1)(input)
