"""CUDA graphs: work that is recorded once and launched as a whole, without the cost of each call."""

from __future__ import annotations

import gc

import corten
from corten import _C
from corten.cuda._lazy import _lazy_init

__all__ = [
    "CUDAGraph", "export_dot", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables",
    "register_graph_capture_end_hook", "register_graph_capture_start_hook", "register_graph_destroy_hook",
    "register_graph_instantiate_hook", "register_graph_replay_end_hook", "register_graph_replay_start_hook",
]


_HOOKS = ("capture_start", "capture_end", "instantiate", "replay_start", "replay_end", "destroy")
_global_hooks = {event: {} for event in _HOOKS}


class _HookHandle:
    """Removes a hook again."""

    def __init__(self, hooks):
        self._hooks = hooks
        self._number = 1 + max(hooks, default=0)

    def remove(self):
        """Removes the hook."""
        self._hooks.pop(self._number, None)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.remove()


def _add_hook(hooks, hook):
    handle = _HookHandle(hooks)
    hooks[handle._number] = hook
    return handle


def register_graph_capture_start_hook(hook):
    """``hook(graph)`` runs when any capture begins. Gives a handle whose ``remove()`` ends that, as the others do."""
    return _add_hook(_global_hooks["capture_start"], hook)


def register_graph_capture_end_hook(hook):
    """``hook(graph)`` runs when any capture has ended."""
    return _add_hook(_global_hooks["capture_end"], hook)


def register_graph_instantiate_hook(hook):
    """``hook(graph)`` runs when any record was made ready to be launched."""
    return _add_hook(_global_hooks["instantiate"], hook)


def register_graph_replay_start_hook(hook):
    """``hook(graph)`` runs before any replay."""
    return _add_hook(_global_hooks["replay_start"], hook)


def register_graph_replay_end_hook(hook):
    """``hook(graph)`` runs after any replay was launched."""
    return _add_hook(_global_hooks["replay_end"], hook)


def register_graph_destroy_hook(hook):
    """``hook(graph)`` runs when any record is given up."""
    return _add_hook(_global_hooks["destroy"], hook)


class CUDAGraph:
    """Recorded work of a GPU.

    A replay reads and writes the tensors of the record: inputs are copied into them before, results read from
    them after. Each replay draws other random numbers, as if its operators ran one by one.

    Args:
        keep_graph: Whether the record stays after the capture, so that :meth:`raw_cuda_graph` gives it;
            :meth:`instantiate`, or the first replay, then makes it ready to be launched.
    """

    def __init__(self, keep_graph=False):
        _lazy_init()
        self._keeps, self._has_graph_exec = keep_graph, False
        self._native = _C._CudaGraph(keep_graph)
        self._hooks, self._retained = {event: {} for event in _HOOKS}, []

    def _run(self, event):
        for hooks in (self._hooks[event], _global_hooks[event]):
            for hook in list(hooks.values()):
                hook(self)

    def register_capture_start_hook(self, hook):
        """``hook(graph)`` runs when the capture begins. Gives a handle whose ``remove()`` ends that."""
        return _add_hook(self._hooks["capture_start"], hook)

    def register_capture_end_hook(self, hook):
        """``hook(graph)`` runs when the capture has ended."""
        return _add_hook(self._hooks["capture_end"], hook)

    def register_post_instantiate_hook(self, hook):
        """``hook(graph)`` runs when the record was made ready to be launched."""
        return _add_hook(self._hooks["instantiate"], hook)

    def register_replay_start_hook(self, hook):
        """``hook(graph)`` runs before each replay."""
        return _add_hook(self._hooks["replay_start"], hook)

    def register_replay_end_hook(self, hook):
        """``hook(graph)`` runs after each replay was launched."""
        return _add_hook(self._hooks["replay_end"], hook)

    def register_destroy_callback(self, cb):
        """``cb()`` runs when the record is given up."""
        return _add_hook(self._hooks["destroy"], lambda _: cb())

    def retain_object(self, obj):
        """Keeps an object for as long as the record."""
        self._retained.append(obj)

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Records what the current stream is given from now on, instead of doing it."""
        self._native.capture_begin(_pool_id(pool), capture_error_mode)
        self._run("capture_start")

    def capture_end(self):
        """Ends the record."""
        self._native.capture_end()
        self._run("capture_end")
        if not self._keeps:
            self._instantiated()

    def _instantiated(self):
        self._has_graph_exec = True
        self._run("instantiate")

    def instantiate(self):
        """Makes a record that is kept ready to be launched, again if it was changed."""
        self._native.instantiate()
        self._instantiated()

    def register_generator_state(self, generator):
        """Lets operators of the record draw from a generator; the GPU's own one needs no mention."""
        self._native.register_generator_state(generator)

    def replay(self):
        """Does the recorded work once more, in the current stream."""
        self._run("replay_start")
        self._native.replay()
        if not self._has_graph_exec:
            self._instantiated()
        self._run("replay_end")

    def reset(self):
        """Gives the record up."""
        self._run("destroy")
        self._native.reset()
        self._has_graph_exec = False
        self._retained.clear()

    def __del__(self):
        if "_retained" in self.__dict__ and self._has_graph_exec:
            self._run("destroy")

    def pool(self):
        """The name of the place that the record's tensors are in, for other graphs."""
        return self._native.pool()

    def pools(self):
        """The names of all such places, of which there is one."""
        return [self.pool()]

    def enable_debug_mode(self):
        """Keeps what :meth:`debug_dump` writes."""
        self._native.enable_debug_mode()

    def debug_dump(self, debug_path, *, verbose=True):
        """Writes the record, which must have been kept, to a file in the language of Graphviz. A record that is kept
        for that alone is given up."""
        if not self._native.debug_dump(str(debug_path)):
            self._native.raw_cuda_graph()

    def raw_cuda_graph(self):
        """The address of the record, a ``cudaGraph_t``."""
        return self._native.raw_cuda_graph()

    def raw_cuda_graph_exec(self):
        """The address of what is launched, a ``cudaGraphExec_t``."""
        return self._native.raw_cuda_graph_exec()


def export_dot(graph, path, *, verbose=True):
    """Writes a record to a file: :meth:`CUDAGraph.debug_dump`."""
    graph.debug_dump(path, verbose=verbose)


def _pool_id(pool):
    """The name of a pool, which a :class:`MemPool` has."""
    return pool.id if isinstance(pool, corten.cuda.MemPool) else pool


class graph:
    """Records what is done in a ``with`` block.

    Args:
        cuda_graph: The :class:`CUDAGraph` that gets the record.
        pool: The place of another graph's tensors, from its ``pool()`` or :func:`graph_pool_handle`, to share.
        stream: The stream of the block; by default one that all blocks have in common.
        capture_error_mode: ``"global"``, ``"thread_local"`` or ``"relaxed"``: whose calls end the record when
            they are such that it cannot contain.
    """

    default_capture_stream = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", enable_annotations=False,
                 annotation_config=None, check_input_liveness=False):
        if enable_annotations or check_input_liveness:
            raise NotImplementedError("torch.cuda.graph: annotations and the check of inputs are not supported")
        if graph.default_capture_stream is None:
            graph.default_capture_stream = corten.cuda.Stream()
        self.pool = pool
        self.capture_stream = stream if stream is not None else graph.default_capture_stream
        self.stream_ctx = corten.cuda.stream(self.capture_stream)
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode

    def __enter__(self):
        corten.cuda.synchronize()
        gc.collect()
        corten.cuda.empty_cache()
        _C._cuda_emptyHostCache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, capture_error_mode=self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, kind, value, traceback):
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(kind, value, traceback)


def is_current_stream_capturing():
    """Whether the work of the current stream is being recorded, by whomever."""
    return "_cuda_init" in vars(_C) and _C._cuda_hasContext() and _C._cuda_isCurrentStreamCapturing()


def graph_pool_handle():
    """A name for a place that the tensors of several graphs share."""
    return _C._graph_pool_handle()


def _tensors(value):
    if isinstance(value, corten.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    return []


def _with_tensors(value, tensors):
    """`value` with its tensors replaced, in order."""
    if isinstance(value, corten.Tensor):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        items = [_with_tensors(item, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _with_tensors(item, tensors) for key, item in value.items()}
    return value


class _Recorded:
    """A function with its record: one graph forward, one backward."""

    def __init__(self, function, arguments, warmups, allow_unused, pool, mode):
        self.inputs = _tensors(arguments)
        self.parameters = list(function.parameters()) if isinstance(function, corten.nn.Module) else []
        self.leaves = [tensor for tensor in (*self.inputs, *self.parameters) if tensor.requires_grad]
        self._warm_up(function, arguments, warmups, allow_unused)
        self.forward, self.backward = CUDAGraph(), None
        with graph(self.forward, pool=pool, capture_error_mode=mode):
            self.result = function(*arguments)
        self.outputs = _tensors(self.result)
        self.differentiable = [output for output in self.outputs if output.requires_grad]
        if not self.differentiable:
            return
        self.given = [corten.empty_like(output) for output in self.differentiable]
        self.backward = CUDAGraph()
        with graph(self.backward, pool=pool, capture_error_mode=mode):
            self.gradients = corten.autograd.grad(
                self.differentiable, self.leaves, self.given, allow_unused=allow_unused, retain_graph=True)

    def _warm_up(self, function, arguments, warmups, allow_unused):
        """Runs outside of a record: kernels are compiled and workspaces allocated."""
        corten.cuda.synchronize()
        with corten.cuda.stream(corten.cuda.Stream()):
            for _ in range(warmups):
                outputs = [output for output in _tensors(function(*arguments)) if output.requires_grad]
                if outputs:
                    given = [corten.ones_like(output) for output in outputs]
                    corten.autograd.grad(outputs, self.leaves, given, allow_unused=allow_unused)
        corten.cuda.synchronize()

    def __call__(self, *arguments):
        recorded = self

        class Replay(corten.autograd.Function):
            @staticmethod
            def forward(ctx, *tensors):
                for place, tensor in zip(recorded.inputs, tensors):
                    if place.data_ptr() != tensor.data_ptr():
                        place.copy_(tensor)
                recorded.forward.replay()
                return tuple(output.detach() for output in recorded.outputs)

            @staticmethod
            def backward(ctx, *gradients):
                wanted = [g for g, output in zip(gradients, recorded.outputs) if output.requires_grad]
                for place, gradient in zip(recorded.given, wanted):
                    place.copy_(gradient) if gradient is not None else place.zero_()
                recorded.backward.replay()
                found = iter(recorded.gradients)
                return tuple(
                    None if not tensor.requires_grad else _detached(next(found))
                    for tensor in (*recorded.inputs, *recorded.parameters))

        tensors = _tensors(arguments)
        if len(tensors) != len(self.inputs):
            raise ValueError(f"the record was made with {len(self.inputs)} tensors, not {len(tensors)}")
        found = Replay.apply(*tensors, *self.parameters)
        return _with_tensors(self.result, iter(found))


def _detached(gradient):
    return None if gradient is None else gradient.detach()


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None,
                           capture_error_mode="global", enable_annotations=False):
    """Functions or modules that replay records of themselves, gradients included.

    Args:
        callables: One of them, or a tuple, recorded one after the other into one place.
        sample_args: The arguments of each, whose tensors become the places of later arguments.
        num_warmup_iters: How often each runs before it is recorded.
        allow_unused_input: Whether inputs may be without a gradient.
        pool: The place of other graphs' tensors.
        capture_error_mode: As for :class:`graph`.
        enable_annotations: Not supported.
    """
    if enable_annotations:
        raise NotImplementedError("make_graphed_callables: annotations are not supported")
    _check_callables(callables)
    alone = not isinstance(callables, tuple)
    functions = (callables,) if alone else callables
    samples = (sample_args,) if alone else sample_args
    pool = graph_pool_handle() if pool is None else pool
    made = []
    for function, arguments in zip(functions, samples):
        recorded = _Recorded(function, arguments, num_warmup_iters, allow_unused_input, pool, capture_error_mode)
        if isinstance(function, corten.nn.Module):
            made.append(_graphed_module(function, recorded))
        else:
            made.append(recorded.__call__)
    return made[0] if alone else tuple(made)


def _check_callables(callables):
    if corten.is_autocast_enabled() and corten.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`.")
    for function in callables if isinstance(callables, tuple) else (callables,):
        if not isinstance(function, corten.nn.Module):
            continue
        if function._forward_hooks or function._forward_pre_hooks or function._backward_hooks:
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed. However, registering hooks on "
                "modules after passing them through make_graphed_callables is allowed.")
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise RuntimeError(
                "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
                "trainable. All buffers must have ``requires_grad=False``.")


def _graphed_module(module, recorded):
    """The module, whose calls in the mode of the record replay it."""
    original, training = module.forward, module.training

    def forward(*arguments):
        return recorded(*arguments) if module.training == training else original(*arguments)

    module.forward = forward
    return module
