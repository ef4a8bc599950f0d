"""One all-gather and one reduce-scatter for all parameters of a group."""

from __future__ import annotations

import corten
import corten.distributed as dist


class Gathering:
    """Parameters that are being gathered: one buffer ``[processes, bytes or elements of all parts]``."""

    def __init__(self, params, group, world_size, comm=None):
        self.params = params
        inputs = [param.all_gather_input() for param in params]
        dtypes = {part.dtype for part in inputs}
        if len(dtypes) > 1:
            # Tensors of several dtypes are sent as bytes.
            inputs = [part.contiguous().view(corten.uint8) for part in inputs]
        self.sizes = [part.numel() for part in inputs]
        flat = inputs[0] if len(inputs) == 1 else corten.cat(inputs)
        self.dtypes = [param.gathered_dtype for param in params]
        self.world_size, self.work, self.input = world_size, None, flat
        if world_size == 1:
            self.output = flat
            return
        size = (world_size * flat.numel(),)
        if comm is None:
            self.output = flat.new_empty(size)
            self.work = dist.all_gather_into_tensor(self.output, flat, group=group, async_op=True)
        else:
            self.output = comm.allocate(size, dtype=flat.dtype, device=flat.device)
            self.work = comm(self.output, flat, group, async_op=True)

    def finish(self):
        """Waits, and fills the parameters."""
        if self.work is not None:
            self.work.wait()
        rows, begin = self.output.view(self.world_size, -1), 0
        for param, size, dtype in zip(self.params, self.sizes, self.dtypes):
            part = rows.narrow(1, begin, size)
            if part.dtype != dtype:
                part = part.contiguous().view(dtype)
            param.fill(part)
            begin += size


def divide_factors(world_size, reduce_dtype, factor=None):
    """What gradients are divided by before and after they are added up: their product is ``factor``, by default
    the number of processes. Sums of half floats would overflow if they were not divided before."""
    factor = float(world_size if factor is None else factor)
    if reduce_dtype != corten.float16:
        return 1.0, factor
    before = 1.0
    while factor % before == 0 and factor / before > before:
        before *= 2
    return before, factor / before


class Reduction:
    """Gradients that are being reduced: one buffer with the parts for all processes."""

    def __init__(self, params, grads, group, world_size, total_size, options):
        self.params, self.options = params, options
        dtype = options.reduce_dtype(params, grads)
        self.before, self.after = divide_factors(total_size, dtype, options.divide_factor)
        self.sizes = [param.padded_numel for param in params]
        comm = options.reduce_scatter_comm
        total = sum(self.sizes)
        device = params[0].device
        self.input = self._allocate(comm, (world_size * total,), dtype, device)
        self._copy_in(grads, self.input.view(world_size, total))
        self.work, self.output = None, self.input
        if self.before != 1.0:
            self.input.div_(self.before)
        if world_size > 1:
            self.output = self._allocate(comm, (total,), dtype, device)
            if comm is None:
                self.work = dist.reduce_scatter_tensor(
                    self.output, self.input, op=dist.ReduceOp.SUM, group=group, async_op=True
                )
            else:
                self.work = comm(self.output, self.input, group, dist.ReduceOp.SUM, async_op=True)

    @staticmethod
    def _allocate(comm, size, dtype, device):
        if comm is None:
            return corten.empty(size, dtype=dtype, device=device)
        return comm.allocate(size, dtype=dtype, device=device)

    def _copy_in(self, grads, rows):
        begin = 0
        for param, grad, size in zip(self.params, grads, self.sizes):
            target = rows.narrow(1, begin, size)
            begin += size
            is_padded = grad.numel() < size * rows.size(0)
            if param.dim == 0 and not is_padded:
                target.copy_(grad.reshape(target.size()))
                continue
            if is_padded:
                target.zero_()
            for row, part in zip(target, param.padded_grad_parts(grad)):
                row[:part.numel()].view(part.size()).copy_(part)

    def finish(self):
        """Waits, adds up over replicas, and gives the parameters their gradients."""
        if self.work is not None:
            self.work.wait()
        output = self.options.reduce_replicas(self.output)
        self.input = None
        if output is None:
            return
        if self.after != 1.0:
            output.div_(self.after)
        begin = 0
        for param, size in zip(self.params, self.sizes):
            param.accumulate_sharded_grad(output.narrow(0, begin, size))
            begin += size
