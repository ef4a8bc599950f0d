"""The collectives that process groups and back ends have in common: their forms of arguments."""

from __future__ import annotations

from . import _options as options
from ._enums import OpType
from ._reduce_op import RedOpType, ReduceOp, encoded


def call(name, outputs=(), inputs=(), op=None, peer=0, tag=0, output_splits=(), input_splits=()):
    """A call as the native side takes it."""
    number, factor = encoded(op)
    return (name, list(outputs), list(inputs), number, factor, peer, tag, list(output_splits), list(input_splits))


def _is_op(value):
    return isinstance(value, (ReduceOp, RedOpType))


def _made(kind, given, **values):
    """The options given, or new ones."""
    if given is not None and not isinstance(given, options._Options):
        raise TypeError(f"{kind.__name__} are expected, not {type(given).__name__}")
    made = kind() if given is None else given
    for name, value in values.items():
        if value is not None:
            setattr(made, name, value)
    return made


def _splits(tensor, splits, size, what):
    """How many rows go to each rank: equal parts unless said."""
    splits = list(splits or ())
    if splits:
        return splits
    rows = tensor.shape[0] if tensor.dim() else 0
    if rows % size:
        raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size ({what})")
    return [rows // size] * size


class Collectives:
    """Calls in the forms of PyTorch: lists of tensors with options, or tensors with values.

    A class that derives from this gives ``_begin(name, arguments, calls, options, outputs, op_type)``, where
    ``arguments`` are those of the form with lists and options.
    """

    def _single(self, name, tensors):
        """The tensor of a list of one."""
        if not isinstance(tensors, (list, tuple)):
            return tensors
        if not tensors:
            raise RuntimeError(f"Invalid argument: ProcessGroup::{name}: requires non-empty tensor list")
        if len(tensors) != 1:
            raise RuntimeError(f"Invalid argument: ProcessGroup::{name}: requires a single-element tensor list")
        return tensors[0]

    def _lists(self, name, lists):
        """The tensors of a list of one list; of none where this rank has nothing to give."""
        if not lists:
            return []
        if isinstance(lists[0], (list, tuple)):
            if len(lists) != 1:
                raise RuntimeError(f"Invalid argument: ProcessGroup::{name}: requires a single-element tensor list")
            return list(lists[0])
        return list(lists)

    def broadcast(self, tensors, opts=None, timeout=None, *, root=None):
        """All get the tensor of one rank: ``(tensors, opts)`` or ``(tensor, root, timeout)``."""
        if isinstance(opts, int):
            root, opts = opts, None
        opts = _made(options.BroadcastOptions, opts, rootRank=root, timeout=timeout)
        tensor = self._single("broadcast", tensors)
        calls = [call("broadcast", [tensor], peer=opts.rootRank)]
        return self._begin("broadcast", ([tensor], opts), calls, opts, [tensor], OpType.BROADCAST)

    def allreduce(self, tensors, opts=None, timeout=None, *, op=None):
        """All get the reduction of all: ``(tensors, opts)``, or tensors or one with ``(op, timeout)``."""
        if _is_op(opts):
            op, opts = opts, None
        opts = _made(options.AllreduceOptions, opts, reduceOp=op, timeout=timeout)
        tensor = self._single("allreduce", tensors)
        if tensor.is_sparse:
            from . import _sparse

            return _sparse.allreduce(self, tensor, opts)
        calls = [call("allreduce", [tensor], op=opts.reduceOp)]
        return self._begin("allreduce", ([tensor], opts), calls, opts, [tensor], OpType.ALLREDUCE)

    def allreduce_coalesced(self, tensors, opts=None):
        """As ``allreduce``, of several tensors at once."""
        opts = _made(options.AllreduceCoalescedOptions, opts)
        tensors = list(tensors)
        if not tensors:
            raise RuntimeError("Invalid argument: ProcessGroup::allreduce_coalesced: requires non-empty tensor list")
        calls = [call("allreduce", [tensor], op=opts.reduceOp) for tensor in tensors]
        arguments = (tensors, opts)
        return self._begin("allreduce_coalesced", arguments, calls, opts, tensors, OpType.ALLREDUCE_COALESCED)

    def reduce(self, tensors, opts=None, op=None, timeout=None, *, root=None):
        """One rank gets the reduction: ``(tensors, opts)`` or ``(tensor, root, op, timeout)``."""
        if isinstance(opts, int):
            root, opts = opts, None
        opts = _made(options.ReduceOptions, opts, rootRank=root, reduceOp=op, timeout=timeout)
        tensor = self._single("reduce", tensors)
        calls = [call("reduce", [tensor], op=opts.reduceOp, peer=opts.rootRank)]
        return self._begin("reduce", ([tensor], opts), calls, opts, [tensor], OpType.REDUCE)

    def allgather(self, output_tensors, input_tensors=None, opts=None, timeout=None, *, input_tensor=None):
        """All get the tensors of all: ``([outputs], [input], opts)`` or ``(outputs, input, timeout)``."""
        input_tensors = input_tensor if input_tensors is None else input_tensors
        opts, timeout = (None, opts) if hasattr(opts, "total_seconds") else (opts, timeout)
        opts = _made(options.AllgatherOptions, opts, timeout=timeout)
        outputs = self._lists("allgather", output_tensors)
        tensor = self._single("allgather", input_tensors)
        calls = [call("allgather", outputs, [tensor])]
        return self._begin("allgather", ([outputs], [tensor], opts), calls, opts, outputs, OpType.ALLGATHER)

    def all_gather_single(self, output, input, opts=None, timeout=None):
        """One tensor of each rank gets the tensors of all, one after another."""
        opts, timeout = (None, opts) if hasattr(opts, "total_seconds") else (opts, timeout)
        opts = _made(options.AllgatherOptions, opts, timeout=timeout)
        calls = [call("_allgather_base", [output], [input])]
        arguments = (output, input, opts)
        return self._begin("_allgather_base", arguments, calls, opts, [output], OpType._ALLGATHER_BASE)

    def _allgather_base(self, *args, **kwargs):
        """The older name of ``all_gather_single``."""
        return self.all_gather_single(*args, **kwargs)

    def allgather_coalesced(self, output_lists, input_list, opts=None):
        """As ``allgather``, of several tensors at once; ``output_lists[rank][i]`` gets that rank's i-th."""
        opts = _made(options.AllgatherOptions, opts)
        calls = [
            call("allgather", [outputs[index] for outputs in output_lists], [tensor])
            for index, tensor in enumerate(input_list)
        ]
        outputs = [tensor for tensors in output_lists for tensor in tensors]
        arguments = (output_lists, input_list, opts)
        return self._begin("allgather_coalesced", arguments, calls, opts, outputs, OpType.ALLGATHER_COALESCED)

    def all_gather_single_coalesced(self, output_lists, input_list, opts=None):
        """As ``all_gather_single``, of several tensors at once."""
        opts = _made(options.AllgatherOptions, opts)
        outputs = list(output_lists)
        calls = [call("_allgather_base", [out], [tensor]) for out, tensor in zip(outputs, input_list, strict=True)]
        kind = OpType.ALLGATHER_INTO_TENSOR_COALESCED
        arguments = (outputs, list(input_list), opts)
        return self._begin("allgather_into_tensor_coalesced", arguments, calls, opts, outputs, kind)

    def allgather_into_tensor_coalesced(self, *args, **kwargs):
        """The older name of ``all_gather_single_coalesced``."""
        return self.all_gather_single_coalesced(*args, **kwargs)

    def gather(self, output_tensors, input_tensors=None, opts=None, timeout=None, *, input_tensor=None, root=None):
        """One rank gets the tensors of all: ``([outputs], [input], opts)`` or ``(outputs, input, root, timeout)``."""
        input_tensors = input_tensor if input_tensors is None else input_tensors
        if isinstance(opts, int):
            root, opts = opts, None
        opts = _made(options.GatherOptions, opts, rootRank=root, timeout=timeout)
        outputs = self._lists("gather", output_tensors)
        tensor = self._single("gather", input_tensors)
        calls = [call("gather", outputs, [tensor], peer=opts.rootRank)]
        arguments = ([outputs] if outputs else [], [tensor], opts)
        return self._begin("gather", arguments, calls, opts, outputs, OpType.GATHER)

    def gather_single(self, output, input, opts=None):
        """One rank's tensor gets the tensors of all, one after another."""
        opts = _made(options.GatherOptions, opts)
        outputs = list(output.chunk(self.size())) if self.rank() == opts.rootRank else []
        return self.gather([outputs] if outputs else [], [input], opts)

    def gather_into_tensor(self, *args, **kwargs):
        """The older name of ``gather_single``."""
        return self.gather_single(*args, **kwargs)

    def scatter(self, output_tensors, input_tensors=None, opts=None, timeout=None, *, output_tensor=None, root=None):
        """Each gets a tensor of one rank: ``([output], [inputs], opts)`` or ``(output, inputs, root, timeout)``."""
        output_tensors = output_tensor if output_tensors is None else output_tensors
        if isinstance(opts, int):
            root, opts = opts, None
        opts = _made(options.ScatterOptions, opts, rootRank=root, timeout=timeout)
        output = self._single("scatter", output_tensors)
        inputs = self._lists("scatter", input_tensors)
        calls = [call("scatter", [output], inputs, peer=opts.rootRank)]
        arguments = ([output], [inputs] if inputs else [], opts)
        return self._begin("scatter", arguments, calls, opts, [output], OpType.SCATTER)

    def reduce_scatter(
        self, output_tensors, input_tensors=None, opts=None, timeout=None, *, input_tensor=None, op=None,
    ):
        """Each gets a part of the reduction: ``([output], [inputs], opts)`` or ``(output, inputs, op, timeout)``."""
        input_tensors = input_tensor if input_tensors is None else input_tensors
        if _is_op(opts):
            op, opts = opts, None
        opts = _made(options.ReduceScatterOptions, opts, reduceOp=op, timeout=timeout)
        output = self._single("reduce_scatter", output_tensors)
        inputs = self._lists("reduce_scatter", input_tensors)
        calls = [call("reduce_scatter", [output], inputs, op=opts.reduceOp)]
        arguments = ([output], [inputs], opts)
        return self._begin("reduce_scatter", arguments, calls, opts, [output], OpType.REDUCE_SCATTER)

    def reduce_scatter_single(self, outputTensor, inputTensor, opts=None, timeout=None, *, op=None):
        """As ``reduce_scatter``, of the parts of one tensor."""
        if _is_op(opts):
            op, opts = opts, None
        opts = _made(options.ReduceScatterOptions, opts, reduceOp=op, timeout=timeout)
        calls = [call("_reduce_scatter_base", [outputTensor], [inputTensor], op=opts.reduceOp)]
        arguments = (outputTensor, inputTensor, opts)
        kind = OpType._REDUCE_SCATTER_BASE
        return self._begin("_reduce_scatter_base", arguments, calls, opts, [outputTensor], kind)

    def _reduce_scatter_base(self, *args, **kwargs):
        """The older name of ``reduce_scatter_single``."""
        return self.reduce_scatter_single(*args, **kwargs)

    def reduce_scatter_single_coalesced(self, outputTensors, inputTensors, opts=None):
        """As ``reduce_scatter_single``, of several tensors at once."""
        opts = _made(options.ReduceScatterOptions, opts)
        outputs = list(outputTensors)
        calls = [
            call("_reduce_scatter_base", [output], [tensor], op=opts.reduceOp)
            for output, tensor in zip(outputs, inputTensors, strict=True)
        ]
        arguments = (outputs, list(inputTensors), opts)
        kind = OpType.REDUCE_SCATTER_TENSOR_COALESCED
        return self._begin("reduce_scatter_tensor_coalesced", arguments, calls, opts, outputs, kind)

    def reduce_scatter_tensor_coalesced(self, *args, **kwargs):
        """The older name of ``reduce_scatter_single_coalesced``."""
        return self.reduce_scatter_single_coalesced(*args, **kwargs)

    def all_to_all_single(self, output, input, output_split_sizes=(), input_split_sizes=(), opts=None, timeout=None):
        """Each gets the rows that the others have for it. Without sizes the rows are equal parts."""
        opts, timeout = (None, opts) if hasattr(opts, "total_seconds") else (opts, timeout)
        opts = _made(options.AllToAllOptions, opts, timeout=timeout)
        outputs = _splits(output, output_split_sizes, self.size(), "output")
        inputs = _splits(input, input_split_sizes, self.size(), "input")
        calls = [call("alltoall_base", [output], [input], output_splits=outputs, input_splits=inputs)]
        arguments = (output, input, list(output_split_sizes or ()), list(input_split_sizes or ()), opts)
        return self._begin("alltoall_base", arguments, calls, opts, [output], OpType.ALLTOALL_BASE)

    def alltoall_base(self, *args, **kwargs):
        """The older name of ``all_to_all_single``."""
        return self.all_to_all_single(*args, **kwargs)

    def alltoall(self, output_tensors, input_tensors, opts=None, timeout=None):
        """Each gets the tensors that the others have for it."""
        opts, timeout = (None, opts) if hasattr(opts, "total_seconds") else (opts, timeout)
        opts = _made(options.AllToAllOptions, opts, timeout=timeout)
        outputs, inputs = list(output_tensors), list(input_tensors)
        calls = [call("alltoall", outputs, inputs)]
        return self._begin("alltoall", (outputs, inputs, opts), calls, opts, outputs, OpType.ALLTOALL)

    def send(self, tensors, dstRank, tag=0):
        """Sends a tensor to a rank."""
        tensor = self._single("send", tensors)
        calls = [call("send", [], [tensor], peer=dstRank, tag=tag)]
        return self._begin("send", ([tensor], dstRank, tag), calls, None, [], OpType.SEND)

    def recv(self, tensors, srcRank, tag=0):
        """Receives a tensor from a rank."""
        tensor = self._single("recv", tensors)
        calls = [call("recv", [tensor], peer=srcRank, tag=tag)]
        return self._begin("recv", ([tensor], srcRank, tag), calls, None, [tensor], OpType.RECV)

    def recv_anysource(self, tensors, tag=0):
        """Receives a tensor from whoever sends one."""
        tensor = self._single("recvAnysource", tensors)
        calls = [call("recv_anysource", [tensor], tag=tag)]
        return self._begin("recv_anysource", ([tensor], tag), calls, None, [tensor], OpType.RECVANYSOURCE)

    def barrier(self, opts=None, timeout=None):
        """Done when all have come: ``(opts)`` or ``(timeout)``."""
        opts, timeout = (None, opts) if hasattr(opts, "total_seconds") else (opts, timeout)
        opts = _made(options.BarrierOptions, opts, timeout=timeout)
        return self._begin("barrier", (opts,), [call("barrier", tag=_gpu(opts))], opts, [], OpType.BARRIER)


def _gpu(opts):
    """The index of the GPU that a barrier is for, or -1."""
    if opts.device is not None and opts.device.type == "cuda" and opts.device.index is not None:
        return opts.device.index
    return opts.device_ids[0] if opts.device_ids else -1


#: The names that a class of Python's may give its own.
NAMES = tuple(name for name in vars(Collectives) if not name.startswith("__") and name not in ("_single", "_lists"))


def device_type(calls, default):
    """The device of the first tensor."""
    for each in calls:
        for tensors in (each[1], each[2]):
            if tensors:
                return tensors[0].device.type
    return default
