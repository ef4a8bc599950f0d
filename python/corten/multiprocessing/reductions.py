"""How tensors and storages travel between processes.

The bytes of a storage are moved, once, to memory that processes can map. Under the strategy
``file_descriptor`` that memory has no name, and its descriptor is handed over when the receiver
asks for it, so the sender must live until then. Under ``file_system`` it has a name in /dev/shm, which
lives until the last process that uses the memory, or may still receive its name, has ended.
"""

from __future__ import annotations

import errno
import os
import threading
import uuid
import weakref
from multiprocessing import reduction, util
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler

import corten
from corten import _C, _utils
from corten.multiprocessing import _segments

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]

_ALL = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"
#: Storages of fewer bytes that nobody shares yet are sent as copies. Workers of loaders set it: what
#: they send belongs to nobody else, and handing a descriptor over costs more than a small copy.
_copied_below = 0

#: What is said when no descriptor is left.
TOO_MANY_FILES = (
    "Too many open files. Communication with the workers is no longer possible. Please increase the "
    "limit using `ulimit -n` in the shell or change the sharing strategy by calling "
    "`torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your code"
)


def get_sharing_strategy():
    """How memory is shared."""
    return _strategy


def get_all_sharing_strategies():
    """The ways in which memory can be shared."""
    return set(_ALL)


def set_sharing_strategy(new_strategy):
    """Chooses how memory is shared, in this process.

    Raises:
        AssertionError: There is no such way.
    """
    global _strategy
    if new_strategy not in _ALL:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_ALL}"
        )
    _strategy = new_strategy


def descriptor_of(storage):
    """A descriptor, to be closed by the caller, of the memory that the storage is moved to."""
    try:
        return _C._share_storage(storage)
    except RuntimeError as error:
        if f"({errno.EMFILE})" in str(error):
            raise RuntimeError(f"{TOO_MANY_FILES} ({error})") from None
        raise


def name_of(storage, share=True):
    """The name of the memory that the storage is in, or is moved to; None for memory without a name."""
    name = _C._share_storage_as(storage)
    if name is not None or storage.is_shared() or not share:
        return name
    _segments.watch()
    path = f"{_segments.FOLDER}/{_segments.prefix()}{os.getpid()}_{uuid.uuid4().hex}"
    try:
        return _C._share_storage_as(storage, path)
    except RuntimeError as error:
        if f"({errno.ENOSPC})" in str(error):
            raise RuntimeError(_no_room(path, storage.nbytes())) from None
        raise


def _no_room(path, nbytes):
    """What is said when the folder of named memory is full."""
    mount = os.statvfs(_segments.FOLDER)
    free, whole = mount.f_bavail * mount.f_frsize, mount.f_blocks * mount.f_frsize
    return (
        f"unable to allocate shared memory(shm) for file <{path}>: No space left on device ({errno.ENOSPC}): "
        f"{nbytes} bytes are needed, and of {whole} bytes of {_segments.FOLDER} {free} are free. Make it larger "
        "(`docker run --shm-size`, in Kubernetes an `emptyDir` with `medium: Memory`), or share by "
        "`torch.multiprocessing.set_sharing_strategy('file_descriptor')`, which it does not limit"
    )


def _share_storage(storage):
    """Moves a storage to shared memory; one without bytes or off the CPU has nothing to move."""
    if storage.device.type == "cpu" and storage.nbytes() and not storage.is_shared():
        if _strategy == "file_system":
            name_of(storage)
        else:
            os.close(descriptor_of(storage))
    return storage


def announce(storage):
    """Counts a message with the storage's name that is about to be sent; returns the word for its transport."""
    _segments.watch()
    transport = "queue" if _passing.outgoing is None else "channel"
    _C._announce_segment(storage, transport, _segments.readers())
    return transport


def reduce_storage(storage):
    """The function and arguments that make the storage again in another process."""
    if storage.device.type == "meta":
        raise RuntimeError("Cannot pickle meta storage; try pickling a meta tensor instead")
    if storage.device.type == "cuda" and storage.nbytes():
        from corten.multiprocessing import _cuda_ipc

        return _cuda_ipc.reduce(storage)
    if storage.device.type == "cuda":
        return rebuild_storage_empty, (type(storage), str(storage.device))
    if storage.device.type != "cpu":
        raise RuntimeError(f"storages on {storage.device} cannot be sent to other processes")
    if storage.nbytes() == 0:
        return rebuild_storage_empty, (type(storage),)
    if storage.nbytes() < _copied_below and not storage.is_shared():
        return storage.__reduce__()
    # Memory that has a name is sent by it, and memory that was shared without one by its descriptor,
    # whatever the strategy is now: all who have it must see the same bytes.
    name = name_of(storage, share=_strategy == "file_system")
    if name is not None:
        return rebuild_storage_segment, (name, announce(storage))
    descriptor = descriptor_of(storage)
    if _passing.outgoing is not None:
        _passing.outgoing.append(descriptor)
        return rebuild_storage_passed, (len(_passing.outgoing) - 1, storage.nbytes())
    try:
        starting = get_spawning_popen()
        if starting is not None:
            # A process that is being started inherits the very descriptor.
            kept = os.dup(descriptor)
            weakref.finalize(starting, os.close, kept)
            return rebuild_storage_fd, (reduction.DupFd(kept), storage.nbytes())
        return rebuild_storage_fd, (reduction.DupFd(descriptor), storage.nbytes())
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise RuntimeError(f"{TOO_MANY_FILES} ({error})") from None
        raise
    finally:
        os.close(descriptor)


def rebuild_storage_empty(cls, device="cpu"):
    """A storage without bytes."""
    return cls(0) if device == "cpu" else cls(0, device=device)


def rebuild_storage_fd(duplicate, nbytes):
    """The storage behind a descriptor that another process hands over."""
    try:
        descriptor = duplicate.detach()
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        kind = ConnectionError if isinstance(error, EOFError) else type(error)
        raise kind(
            "the process that sent a tensor ended before its memory was received. Keep it alive until then, or "
            f"call torch.multiprocessing.set_sharing_strategy('file_system') in it ({error!r})"
        ) from None
    except (OSError, RuntimeError) as error:
        # The standard library says only how many items of control data came.
        if getattr(error, "errno", errno.EMFILE) == errno.EMFILE:
            raise RuntimeError(f"{TOO_MANY_FILES} ({error})") from None
        raise
    return _C._storage_from_descriptor(descriptor, nbytes)


def rebuild_storage_segment(name, transport):
    """The storage behind a name."""
    _segments.watch()
    return _C._storage_from_segment(name, transport)


def rebuild_storage_filename(cls, manager, handle, size, dtype=None):
    """The storage of `size` elements behind a name that ``_share_filename_cpu_`` gave."""
    storage = cls._new_shared_filename_cpu(manager, handle, size)
    return storage if dtype is None else rebuild_typed_storage(storage, dtype)


def reduce_typed_storage(storage):
    """As :func:`reduce_storage`, with the dtype."""
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage(untyped, dtype):
    """A storage of a dtype."""
    from corten.storage import TypedStorage

    return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def reduce_tensor(tensor):
    """The function and arguments that make the tensor again in another process.

    Raises:
        RuntimeError: The tensor requires a gradient and is no leaf.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does "
            "not support crossing process boundaries.  If you just want to transfer the data, call "
            "detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if tensor._backward_hooks:
        import warnings

        warnings.warn("Tensors' hooks are not sent to other processes", stacklevel=2)
    if tensor.layout is not corten.strided or tensor.device.type == "meta":
        return _utils.reduce_tensor(tensor)
    _utils.check_unnamed(tensor)
    geometry = (tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride()))
    flags = (tensor.is_conj(), tensor.is_neg())
    storage = tensor.untyped_storage()
    if _passing.slots is not None:
        storage = _passing.slots.place(tensor, storage, _passing.outgoing) or storage
    arguments = (
        type(tensor), storage, tensor.dtype, geometry, tensor.requires_grad, flags,
        dict(tensor.__dict__), _utils.quantizer_of(tensor) if tensor.is_quantized else None,
    )
    return rebuild_tensor, arguments


def rebuild_tensor(cls, storage, dtype, geometry, requires_grad, flags, attributes, quantizer=None):
    """A tensor, or parameter, over a storage."""
    if quantizer is None:
        made = corten.empty((0,), dtype=dtype, device=storage.device)
        made = _utils.strided_over(made, storage, *geometry)
    else:
        made = _utils.quantized_over(storage, dtype, *geometry, quantizer)
    if flags[0]:
        made = made.conj()
    if flags[1]:
        made = made._neg_view()
    if issubclass(cls, corten.nn.Parameter):
        made = cls(made, requires_grad=requires_grad)
    else:
        if cls is not corten.Tensor:
            made = made.as_subclass(cls)
        made.requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


class _Passing(threading.local):
    """The descriptors of the message that this thread writes or reads, and the slots that its storages may be in."""

    outgoing = incoming = slots = None


_passing = _Passing()


def dump_passing(value, slots=None):
    """Pickles a value for a channel that hands descriptors over with the bytes; returns both. The descriptors
    belong to the caller. ``slots`` are those of a worker, which tensors are put into."""
    outgoing = _passing.outgoing = []
    _passing.slots = slots
    dumped = None
    if slots is not None:
        slots.begin()
    try:
        dumped = ForkingPickler.dumps(value)
        return dumped, outgoing
    except BaseException:
        close_all(outgoing)
        raise
    finally:
        _passing.outgoing = _passing.slots = None
        if slots is not None:
            slots.end(dumped is not None)


def load_passed(data, descriptors, slots=None):
    """The value in a message that came with descriptors, which it takes over. ``slots`` are those of the worker that
    sent it, as the loader has them."""
    incoming = _passing.incoming = list(descriptors)
    _passing.slots = slots
    if slots is not None:
        slots.begin()
    try:
        return ForkingPickler.loads(data)
    finally:
        if slots is not None:
            slots.end()
        _passing.incoming = _passing.slots = None
        close_all(descriptor for descriptor in incoming if descriptor is not None)


def close_all(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


def rebuild_storage_passed(place, nbytes):
    """The storage behind a descriptor that came with the message."""
    descriptor, _passing.incoming[place] = _passing.incoming[place], None
    return _C._storage_from_descriptor(descriptor, nbytes)


def copy_below(nbytes):
    """Sends storages of fewer bytes, unless they are shared already, as copies."""
    global _copied_below
    _copied_below = nbytes


def _release_at_end():
    # Children of the standard library end without running what `atexit` holds, but run its finalizers.
    util.Finalize(None, _C._release_segments, exitpriority=-100)


def init_reductions():
    """Teaches the standard library's pickler for processes about tensors and storages."""
    from corten.storage import TypedStorage, UntypedStorage

    _release_at_end()
    os.register_at_fork(
        before=_segments.before_fork, after_in_parent=_segments.after_fork_in_parent,
        after_in_child=_segments.after_fork_in_child,
    )
    util.register_after_fork(_segments, lambda _: _release_at_end())

    ForkingPickler.register(UntypedStorage, reduce_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
    ForkingPickler.register(corten.Tensor, reduce_tensor)
    ForkingPickler.register(corten.nn.Parameter, reduce_tensor)
