"""Collective operations of one process between its GPUs, by NCCL.

Each GPU is a rank of its own: a thread gives it its part of a call, as the library waits until all have theirs. What
several processes do together is in :mod:`corten.distributed`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Container, Sequence

from corten import _C, cuda

__all__ = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]

#: The number of the sum among NCCL's reductions.
SUM = 0

#: NCCL's reductions by their numbers.
_OPERATIONS = ("SUM", "PRODUCT", "MAX", "MIN", "AVG")

#: The ranks of each list of devices, made when it is used first.
_worlds, _making = {}, threading.Lock()


def _native():
    """The module of the back end.

    Raises:
        RuntimeError: This build has no CUDA.
    """
    if not hasattr(_C, "_dist_nccl_backend"):
        raise RuntimeError("torch.cuda.nccl: this build has no CUDA back end, which NCCL needs")
    from corten._C import _distributed_c10d

    return _distributed_c10d


def is_available(tensors):
    """Whether NCCL is there and takes the tensors: dense, contiguous, each on a GPU of its own."""
    if not (hasattr(_C, "_dist_nccl_backend") and _native()._is_nccl_available()):
        warnings.warn("PyTorch is not compiled with NCCL support", stacklevel=2)
        return False
    devices = set()
    for tensor in tensors:
        if tensor.is_sparse or not tensor.is_contiguous() or not tensor.is_cuda or tensor.get_device() in devices:
            return False
        devices.add(tensor.get_device())
    return True


def version():
    """The version of the NCCL that is installed: ``(major, minor, patch)``.

    Raises:
        RuntimeError: There is none; `pip install nvidia-nccl-cu13` brings it.
    """
    return _native().ProcessGroupNCCL.get_runtime_nccl_version()


def _absent(name, doc):
    def function(*args, **kwargs):
        raise NotImplementedError(
            f"torch.cuda.nccl.{name}: communicators between processes are made by "
            "torch.distributed.init_process_group('nccl')")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


unique_id = _absent("unique_id", "A name for a communicator between processes: absent.")
init_rank = _absent("init_rank", "Joins a communicator between processes: absent.")


def _check_sequence_type(inputs):
    if not isinstance(inputs, Container) or hasattr(inputs, "is_cuda"):
        raise TypeError("Inputs should be a collection of tensors")


def _check(name, inputs, outputs, input_share=1, output_share=1):
    """Checks one input and one output of each device, of which so many times the elements must be equal."""
    if len(inputs) == 0:
        raise RuntimeError("input sequence can't be empty")
    if len(inputs) != len(outputs):
        raise RuntimeError(
            "inputs and outputs sequences have to be of the same length, but got input of length "
            f"{len(inputs)} and output of length {len(outputs)}")
    devices = set()
    for index, (given, out) in enumerate(zip(inputs, outputs)):
        for what, tensor in (("input", given), ("output", out)):
            if not tensor.is_cuda or tensor.is_sparse:
                raise RuntimeError(
                    f"torch.cuda.nccl.{name}: {what} {index} must be a dense CUDA tensor, but is on {tensor.device} "
                    f"with layout {tensor.layout}")
            if not tensor.is_contiguous():
                raise RuntimeError(f"torch.cuda.nccl.{name}: {what} {index} must be contiguous")
            if tensor.dtype != inputs[0].dtype:
                raise RuntimeError(
                    f"torch.cuda.nccl.{name}: all tensors must have the dtype of the first input, "
                    f"{inputs[0].dtype}, but {what} {index} has {tensor.dtype}")
        if given.get_device() != out.get_device():
            raise RuntimeError(f"torch.cuda.nccl.{name}: input and output {index} must be on the same device")
        if given.get_device() in devices:
            raise RuntimeError("inputs must be on unique devices")
        devices.add(given.get_device())
        if given.numel() != inputs[0].numel():
            raise RuntimeError("all inputs must have the same number of elements")
        if given.numel() * input_share != out.numel() * output_share:
            raise RuntimeError(
                f"torch.cuda.nccl.{name}: output {index} has {out.numel()} elements for {given.numel()} of the "
                f"input, but {given.numel() * input_share // output_share} are expected")


def _operation(name, op):
    if not isinstance(op, int) or not 0 <= op < len(_OPERATIONS):
        raise ValueError(f"torch.cuda.nccl.{name}: op must be a number from 0 to {len(_OPERATIONS) - 1}, but is {op!r}")
    return getattr(_native().ReduceOp, _OPERATIONS[op])


def _ranks(devices):
    """One back end for each of the devices."""
    native = _native()
    with _making:
        if devices not in _worlds:
            store = native.HashStore()
            _worlds[devices] = [native.ProcessGroupNCCL(store, rank, len(devices)) for rank in range(len(devices))]
        return _worlds[devices]


def _run(name, inputs, streams, comms, call):
    """`call` of each rank's back end and number, each on its device's stream."""
    if comms is not None:
        raise NotImplementedError(f"torch.cuda.nccl.{name}: comms are not taken")
    devices = tuple(tensor.get_device() for tensor in inputs)
    given = [None] * len(devices) if streams is None else list(streams)
    if len(given) != len(devices):
        raise RuntimeError(f"torch.cuda.nccl.{name}: {len(devices)} streams are expected, but got {len(given)}")
    ranks, errors = _ranks(devices), [None] * len(devices)
    current = [stream or cuda.current_stream(device) for stream, device in zip(given, devices)]

    def part(rank):
        try:
            with cuda.stream(current[rank]):
                call(ranks[rank], rank).wait()
        except BaseException as error:  # noqa: BLE001 - raised on the calling thread
            errors[rank] = error

    threads = [threading.Thread(target=part, args=(rank,), daemon=True) for rank in range(len(devices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            with _making:
                _worlds.pop(devices, None)
            raise error


def _copied(inputs, outputs, streams):
    """Copies inputs to outputs that are others, on the streams of the call."""
    for index, (given, out) in enumerate(zip(inputs, outputs)):
        if given is not out:
            stream = streams[index] if streams is not None else None
            with cuda.stream(stream or cuda.current_stream(given.get_device())):
                out.detach().copy_(given.detach())


def all_reduce(inputs, outputs=None, op=SUM, streams=None, comms=None):
    """Reduces the tensors of all devices; every output gets the result.

    Args:
        inputs: A tensor on each device, all of one size and dtype.
        outputs: Where results go; the inputs, where there are none.
        op: The number of a reduction: 0 a sum, 1 a product, 2 the largest, 3 the smallest, 4 the average.
        streams: The stream of each device that runs it; the current ones, where there are none.
    """
    _check_sequence_type(inputs)
    outputs = inputs if outputs is None else outputs
    _check_sequence_type(outputs)
    options = _native().AllreduceOptions()
    options.reduceOp = _operation("all_reduce", op)
    _check("all_reduce", inputs, outputs)
    _copied(inputs, outputs, streams)
    _run("all_reduce", inputs, streams, comms, lambda rank, at: rank.allreduce([outputs[at].detach()], options))


def reduce(inputs, output=None, root=0, op=SUM, streams=None, comms=None, *, outputs=None):
    """Reduces the tensors of all devices into a tensor on one of them.

    Args:
        inputs: A tensor on each device, all of one size and dtype.
        output: Where the result goes, on the device of ``inputs[root]``; that input, where there is none.
        root: The number of the input on whose device the result is.
        op: As of :func:`all_reduce`.
        streams: As of :func:`all_reduce`.
        outputs: Deprecated: a list of which the one at ``root`` is used.
    """
    _check_sequence_type(inputs)
    if outputs is not None:
        if output is not None:
            raise ValueError(
                "'output' and 'outputs' can not be both specified. 'outputs' is deprecated in favor of 'output', "
                "taking in a single output tensor. The signature of reduce is: reduce(inputs, output=None, root=0, "
                "op=SUM, streams=None, comms=None).")
        warnings.warn(
            "`nccl.reduce` with an output tensor list is deprecated. Please specify a single output tensor with "
            "argument 'output' instead.", FutureWarning, stacklevel=2)
        output = outputs[root]
    elif isinstance(output, Sequence):
        warnings.warn(
            "nccl.reduce with an output tensor list is deprecated. Please specify a single output tensor.",
            FutureWarning, stacklevel=2)
        output = output[root]
    if not 0 <= root < len(inputs):
        raise RuntimeError(f"torch.cuda.nccl.reduce: root must be from 0 to {len(inputs) - 1}, but is {root}")
    output = inputs[root] if output is None else output
    options = _native().ReduceOptions()
    options.reduceOp, options.rootRank, options.rootTensor = _operation("reduce", op), root, 0
    # What other ranks give as results is not written.
    into = [output if index == root else given for index, given in enumerate(inputs)]
    _check("reduce", inputs, into)
    _copied(inputs, into, streams)
    _run("reduce", inputs, streams, comms, lambda rank, at: rank.reduce([into[at].detach()], options))


def broadcast(inputs, root=0, streams=None, comms=None):
    """Copies the tensor at ``root`` into all others.

    Args:
        inputs: A tensor on each device, all of one size and dtype.
        root: The number of the one that is copied.
        streams: As of :func:`all_reduce`.
    """
    _check_sequence_type(inputs)
    _check("broadcast", inputs, inputs)
    if not 0 <= root < len(inputs):
        raise RuntimeError(f"torch.cuda.nccl.broadcast: root must be from 0 to {len(inputs) - 1}, but is {root}")
    options = _native().BroadcastOptions()
    options.rootRank, options.rootTensor = root, 0
    _run("broadcast", inputs, streams, comms, lambda rank, at: rank.broadcast([inputs[at].detach()], options))


def all_gather(inputs, outputs, streams=None, comms=None):
    """Copies the tensors of all devices, one after the other, into every output.

    Args:
        inputs: A tensor on each device, all of one size and dtype.
        outputs: A tensor on each device, with the elements of all inputs.
        streams: As of :func:`all_reduce`.
    """
    _check_sequence_type(inputs)
    _check_sequence_type(outputs)
    _check("all_gather", inputs, outputs, input_share=len(inputs))
    _run("all_gather", inputs, streams, comms,
         lambda rank, at: rank._allgather_base(outputs[at].detach().view(-1), inputs[at].detach().view(-1)))


def reduce_scatter(inputs, outputs, op=SUM, streams=None, comms=None):
    """Reduces the tensors of all devices; every output gets a part of the result.

    Args:
        inputs: A tensor on each device, with the elements of all outputs.
        outputs: A tensor on each device, all of one size and dtype.
        op: As of :func:`all_reduce`.
        streams: As of :func:`all_reduce`.
    """
    _check_sequence_type(inputs)
    _check_sequence_type(outputs)
    options = _native().ReduceScatterOptions()
    options.reduceOp = _operation("reduce_scatter", op)
    _check("reduce_scatter", inputs, outputs, output_share=len(inputs))

    def call(rank, at):
        return rank._reduce_scatter_base(outputs[at].detach().view(-1), inputs[at].detach().view(-1), options)

    _run("reduce_scatter", inputs, streams, comms, call)
