"""Messages between stages: outputs to the next one, gradients to the one before.

Note [Order of messages]: a process posts its receives from another one in the order in which that one sends,
which it knows from the schedule, so that no engine needs tags to tell messages apart. The first message of
each stage in a step is preceded by one of fixed length that tells the shapes.
"""

from __future__ import annotations

from collections import deque

import corten
import corten.distributed as dist

from .stage import tensors_needing_grad

#: What a header says: how many tensors, then for each dtype, whether it needs a gradient, dimensions, sizes.
_HEADER = 256
_DTYPES = (
    corten.float32, corten.float64, corten.float16, corten.bfloat16, corten.int64, corten.int32,
    corten.int16, corten.int8, corten.uint8, corten.bool, corten.complex64, corten.complex128,
)


def _header_of(stage, tensors, device):
    numbers = [len(tensors)]
    for tensor in tensors:
        if not isinstance(tensor, corten.Tensor) or tensor.dtype not in _DTYPES:
            raise TypeError(
                f"Stage {stage}: outputs that go to the next stage must be tensors of a common dtype, got "
                f"{getattr(tensor, 'dtype', type(tensor))}"
            )
        numbers += [
            _DTYPES.index(tensor.dtype), int(tensor.requires_grad), tensor.dim(), *tensor.shape,
        ]
    if len(numbers) > _HEADER:
        raise ValueError(f"Stage {stage}: the shapes of its outputs need {len(numbers)} numbers, more than {_HEADER}")
    numbers += [0] * (_HEADER - len(numbers))
    return corten.tensor(numbers, dtype=corten.int64, device=device)


def _shapes_in(header):
    numbers = header.tolist()
    shapes, place = [], 1
    for _ in range(numbers[0]):
        kind, needs_grad, ndim = numbers[place:place + 3]
        place += 3
        shapes.append((_DTYPES[kind], bool(needs_grad), tuple(numbers[place:place + ndim])))
        place += ndim
    return shapes


def _shapes_of(tensors):
    return [(tensor.dtype, tensor.requires_grad, tuple(tensor.shape)) for tensor in tensors]


class Exchange:
    """The messages of one step.

    Args:
        stages: The stages of this process, by number.
        order: The actions of every process: (kind, stage, microbatch), the kind ``"F"`` or ``"B"``.
        owner: The process of each stage.
    """

    def __init__(self, stages, order, owner):
        any_stage = next(iter(stages.values()))
        self.stages, self.owner = stages, owner
        self.group, self.me, self.device = any_stage.group, any_stage.group_rank, any_stage.device
        self.num_stages = any_stage.num_stages
        self.told, self.shapes = {}, {}
        self.here = {}  # messages between stages of this process
        self.posted = {}
        self.sends = []
        self.ahead = {
            rank: deque(self._messages(actions)) for rank, actions in order.items() if rank != self.me
        }

    def _messages(self, actions):
        """What a process sends to this one, in order: (kind, stage that it is for, microbatch)."""
        for kind, stage, chunk in actions:
            target = self.target(kind, stage)
            if target is not None and self.owner[target] == self.me:
                yield kind, target, chunk

    def target(self, kind, stage):
        """The stage that the result of an action goes to, or nothing."""
        target = stage + 1 if kind == "F" else stage - 1
        return target if 0 <= target < self.num_stages else None

    def source(self, kind, stage):
        """The stage that an action waits for, or nothing."""
        source = stage - 1 if kind == "F" else stage + 1
        return source if 0 <= source < self.num_stages else None

    def _op(self, function, tensor, rank):
        peer = rank if self.group is None else dist.get_global_rank(self.group, rank)
        return dist.P2POp(function, tensor, peer, self.group)

    def send(self, kind, stage, chunk, tensors):
        """Prepares the messages with the result of an action; :meth:`post` sends them."""
        target = self.target(kind, stage)
        if target is None:
            return []
        if self.owner[target] == self.me:
            self.here[kind, target, chunk] = [
                tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors
            ]
            return []
        rank, ops = self.owner[target], []
        if kind == "F":
            shapes = _shapes_of(tensors) if all(isinstance(t, corten.Tensor) for t in tensors) else None
            if stage not in self.told:
                ops.append(self._op(dist.isend, _header_of(stage, tensors, self.device), rank))
                self.told[stage] = shapes
            elif self.told[stage] != shapes:
                raise RuntimeError(
                    f"Stage {stage}: the outputs of microbatch {chunk} are {shapes}, those of the first "
                    f"were {self.told[stage]}"
                )
        return ops + [self._op(dist.isend, tensor.detach().contiguous(), rank) for tensor in tensors]

    def post(self, ops, following=None):
        """Starts sends, together with the receives that the action ``following`` needs."""
        receives = []
        if following is not None:
            kind, stage, _ = following
            source = self.source(kind, stage)
            if source is not None and self.owner[source] != self.me:
                ops = self._receive_until(following, self.ahead[self.owner[source]], ops, receives)
        self._start(ops + receives)

    def _receive_until(self, wanted, ahead, ops, receives):
        """Adds the receives up to that of an action; see Note [Order of messages]."""
        while wanted not in self.posted:
            kind, stage, chunk = message = ahead.popleft()
            rank = self.owner[self.source(kind, stage)]
            if kind == "F" and stage not in self.shapes:
                # What is waited for may wait for what is to be sent.
                self._start(ops + receives)
                ops, receives[:] = [], []
                header = corten.empty(_HEADER, dtype=corten.int64, device=self.device)
                for work in dist.batch_isend_irecv([self._op(dist.irecv, header, rank)]):
                    work.wait()
                self.shapes[stage] = _shapes_in(header)
            shapes = self.shapes[stage] if kind == "F" else _shapes_of(
                tensors_needing_grad(self.stages[stage].outputs_of(chunk))
            )
            buffers = [
                corten.empty(shape, dtype=dtype, device=self.device) for dtype, _, shape in shapes
            ]
            self.posted[message] = (buffers, shapes, [])
            for buffer in buffers:
                op = self._op(dist.irecv, buffer, rank)
                op.message = message
                receives.append(op)
        return ops

    def _start(self, ops):
        if not ops:
            return
        self._release_sent()
        works = dist.batch_isend_irecv(ops)
        if len(works) != len(ops):
            # The engine made one of them all; it may be waited for more than once.
            works = [works[-1]] * len(ops)
        for op, work in zip(ops, works):
            message = getattr(op, "message", None)
            if message is None:
                # The tensor has to be there until it is sent.
                self.sends.append((work, op.tensor))
            else:
                self.posted[message][2].append(work)

    def _release_sent(self):
        """Gives up the tensors that were sent."""
        waiting = []
        for work, tensor in self.sends:
            if work.is_completed():
                work.wait()
            else:
                waiting.append((work, tensor))
        self.sends = waiting

    def receive(self, kind, stage, chunk):
        """What an action waits for: the inputs of a stage, or the gradients of its outputs."""
        key = (kind, stage, chunk)
        source = self.source(kind, stage)
        if self.owner[source] == self.me:
            return self.here.pop(key)
        self.post([], key)
        buffers, shapes, works = self.posted.pop(key)
        for work in works:
            work.wait()
        if kind == "F":
            for buffer, (_, needs_grad, _) in zip(buffers, shapes):
                buffer.requires_grad_(needs_grad)
        return buffers

    def finish(self):
        """Waits until everything is sent."""
        for work, _ in self.sends:
            work.wait()
        self.sends.clear()
