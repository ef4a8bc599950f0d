"""The accelerator of this machine, whatever its kind: the GPUs of :mod:`corten.cuda`."""

from __future__ import annotations

from collections import OrderedDict

from corten import _C

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]


def _is_compiled():
    return "_cuda_init" in vars(_C)


def _cuda():
    """The module of the accelerator.

    Raises:
        RuntimeError: This build drives none.
    """
    if not _is_compiled():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    from corten import cuda

    return cuda


def _index(device):
    """The index that a device or a number names; ``None`` is the current one."""
    if isinstance(device, (str, _C.device)):
        device = _C.device(device)
        if device.type != "cuda":
            raise ValueError(f"{device.type} doesn't match the current accelerator cuda.")
        device = device.index
    return current_device_index() if device is None else device


def is_available():
    """Whether there is one."""
    return _is_compiled() and _cuda().is_available()


def device_count():
    """How many there are."""
    return _cuda().device_count() if _is_compiled() else 0


def current_accelerator(check_available=False):
    """Its device without index, or ``None``.

    Args:
        check_available: Whether it must be usable now, not only supported by this build.
    """
    if not _is_compiled() or check_available and not is_available():
        return None
    return _C.device("cuda")


def current_device_index():
    """The index of the current one."""
    return _cuda().current_device()


def set_device_index(device, /):
    """Makes one the current one of this thread."""
    _cuda().set_device(_index(device))


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device=None, /):
    """The stream that operators of this thread run on."""
    from corten._streams import Stream

    cuda = _cuda()
    cuda.init()
    return Stream._of(*_C._cuda_getCurrentStream(_index(device)))


def set_stream(stream):
    """Makes a stream the current one of its device, and its device the current one."""
    cuda = _cuda()
    cuda.init()
    cuda.set_stream(stream)


def synchronize(device=None, /):
    """Waits for everything a device was asked to do."""
    _cuda().synchronize(_index(device))


def get_device_capability(device=None, /):
    """The dtypes that a device computes in."""
    cuda = _cuda()
    cuda.init()
    _index(device)
    names = (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
        "complex64", "complex128",
    )
    return {"supported_dtypes": {getattr(_C, name) for name in names}}


def get_memory_info(device=None, /):
    """Free and total bytes of a device."""
    return _cuda().mem_get_info(_index(device))


def empty_cache():
    """Gives unused memory of devices back."""
    if _is_compiled():
        _cuda().empty_cache()


def empty_host_cache():
    """Gives unused pinned memory back."""
    empty = vars(_C).get("_cuda_emptyHostCache")
    if empty is not None:
        empty()


def memory_stats(device_index=None, /):
    """Everything that is counted about the memory of a device."""
    if not _is_compiled() or not _cuda().is_initialized():
        return OrderedDict()
    return _cuda().memory_stats(_index(device_index))


def _count(name, doc, counted):
    def function(device_index=None, /):
        return memory_stats(device_index).get(counted, 0)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


memory_allocated = _count(
    "memory_allocated", "Bytes that tensors on a device use.", "allocated_bytes.all.current"
)
memory_reserved = _count(
    "memory_reserved", "Bytes that the allocator of a device holds.", "reserved_bytes.all.current"
)
max_memory_allocated = _count(
    "max_memory_allocated", "The most bytes that tensors on a device have used.",
    "allocated_bytes.all.peak",
)
max_memory_reserved = _count(
    "max_memory_reserved", "The most bytes that the allocator of a device has held.",
    "reserved_bytes.all.peak",
)


def reset_accumulated_memory_stats(device_index=None, /):
    """Sets counts of memory to 0."""
    if _is_compiled() and _cuda().is_initialized():
        _cuda().reset_accumulated_memory_stats(_index(device_index))


def reset_peak_memory_stats(device_index=None, /):
    """Lets the most bytes that were used begin again at the present ones."""
    if _is_compiled() and _cuda().is_initialized():
        _cuda().reset_peak_memory_stats(_index(device_index))


class device_index:
    """Makes a device the current one for a ``with`` block; ``None`` changes nothing."""

    def __init__(self, device, /):
        self.idx, self.prev_idx = device, -1

    def __enter__(self):
        if self.idx is not None:
            self.prev_idx = _cuda()._exchange_device(self.idx)

    def __exit__(self, kind, value, traceback):
        if self.idx is not None:
            _cuda()._maybe_exchange_device(self.prev_idx)
        return False


class Graph:
    """Recorded work of the accelerator: :class:`corten.cuda.CUDAGraph`, which records what is done in a ``with``
    block in the current stream.

    Args:
        keep_graph: Whether the record stays after the capture.
        pool: The place of another record's tensors, to share.
        capture_error_mode: Whose calls end the record when they are such that it cannot contain.
    """

    def __init__(self, keep_graph=False, *, pool=None, capture_error_mode="default"):
        _cuda()
        if not is_available():
            raise RuntimeError("Graph is not supported on device type: cuda")
        self._graph = _cuda().CUDAGraph(keep_graph)
        self.graph_pool, self.capture_error_mode = pool, capture_error_mode

    def capture_begin(self):
        """Records what the current stream is given from now on, instead of doing it."""
        mode = "global" if self.capture_error_mode == "default" else self.capture_error_mode
        self._graph.capture_begin(self.graph_pool, mode)

    def capture_end(self):
        """Ends the record."""
        self._graph.capture_end()

    def instantiate(self):
        """Makes a record that is kept ready to be launched."""
        self._graph.instantiate()

    def replay(self):
        """Does the recorded work once more, in the current stream."""
        self._graph.replay()

    def reset(self):
        """Gives the record up."""
        self._graph.reset()

    def pool(self):
        """The name of the place that the record's tensors are in."""
        return self._graph.pool()

    def enable_debug_mode(self):
        """Keeps what :meth:`debug_dump` writes."""
        self._graph.enable_debug_mode()

    def debug_dump(self, path):
        """Writes the record to a file in the language of Graphviz."""
        self._graph.debug_dump(path)

    def __enter__(self):
        self.capture_begin()

    def __exit__(self, kind, value, traceback):
        self.capture_end()
