"""``mixed_precision`` of ``DistributedDataParallel``: parameters keep their dtype, modules compute with copies."""

from __future__ import annotations

import contextlib

import corten
import corten.distributed as dist
from corten.utils._pytree import tree_map_only

__all__ = ["LowPrecision"]


def _cast(dtype, values):
    return tree_map_only(
        corten.Tensor, lambda value: value.to(dtype) if value.is_floating_point() else value, values
    )


class LowPrecision:
    """The copies of a module's parameters, which stand in their place while it runs.

    Casts are part of the graph, so that gradients arrive at the parameters in their dtype.

    Args:
        module: The module.
        policy: The dtypes.
        ignored: Names of parameters that are left alone.
    """

    def __init__(self, module, policy, ignored):
        self._policy, self._owners = policy, []
        for prefix, inner in module.named_modules():
            for name, param in inner._parameters.items():
                full = f"{prefix}.{name}" if prefix else name
                if param is not None and param.is_floating_point() and full not in ignored:
                    self._owners.append((inner, name))
        if policy.buffer_dtype is not None:
            for prefix, inner in module.named_modules():
                for name, buffer in inner._buffers.items():
                    full = f"{prefix}.{name}" if prefix else name
                    if buffer is not None and buffer.is_floating_point() and full not in ignored:
                        inner._buffers[name] = buffer.to(policy.buffer_dtype)

    def inputs(self, args, kwargs):
        """Arguments in the dtype of the parameters."""
        if self._policy.param_dtype is None:
            return args, kwargs
        return _cast(self._policy.param_dtype, args), _cast(self._policy.param_dtype, kwargs)

    @contextlib.contextmanager
    def replaced(self):
        """Within this, modules have the copies."""
        dtype, copies, touched = self._policy.param_dtype, {}, []
        try:
            for module, name in self._owners if dtype is not None else ():
                param = module._parameters[name]
                if param not in copies:
                    copies[param] = param.to(dtype)
                # It goes before what is registered.
                vars(module)[name] = copies[param]
                touched.append((module, name))
            yield
        finally:
            for module, name in touched:
                vars(module).pop(name, None)

    def reduce(self, group, bucket):
        """A communication hook: the average in the dtype of reduction, by default that of the parameters."""
        buffer = bucket.buffer()
        dtype = self._policy.reduce_dtype or self._policy.param_dtype or buffer.dtype
        sent = buffer if buffer.dtype == dtype else buffer.to(dtype)
        work = dist.all_reduce(sent.div_(group.size()), group=group, async_op=True)
        if sent is buffer:
            return work.get_future().then(lambda future: future.value()[0])
        return work.get_future().then(lambda future: buffer.copy_(future.value()[0]))
