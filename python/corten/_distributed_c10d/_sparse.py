"""The sum of sparse tensors over the ranks of a group."""

from __future__ import annotations

import corten

from ._works import _FutureWork


def allreduce(group, tensor, opts):
    """Sums a coordinate tensor over the ranks, in place.

    The ranks tell each other how many coordinates they have, then gather coordinates and values of the largest
    number and add what is real.
    """
    from corten.futures import Future

    if opts.reduceOp.name != "SUM":
        raise ValueError(f"ReduceOp.{opts.reduceOp.name} is not supported for sparse tensors, only SUM")
    with corten.no_grad():
        own = tensor.coalesce()
        indices, values = own._indices().contiguous(), own._values().contiguous()
        counts = [corten.zeros(1, dtype=corten.int64) for _ in range(group.size())]
        group.allgather([counts], [corten.tensor([values.shape[0]])]).wait()
        counts = [int(count) for count in counts]
        most = max(counts)
        total = own
        if most:
            padded = [
                corten.zeros(indices.shape[0], most, dtype=corten.int64),
                values.new_zeros(most, *values.shape[1:]),
            ]
            padded[0][:, : indices.shape[1]] = indices
            padded[1][: values.shape[0]] = values
            gathered = []
            for part in padded:
                outputs = [corten.empty_like(part) for _ in counts]
                group.allgather([outputs], [part]).wait()
                gathered.append(outputs)
            total = corten.sparse_coo_tensor(
                corten.cat([each[:, :count] for each, count in zip(gathered[0], counts)], 1),
                corten.cat([each[:count] for each, count in zip(gathered[1], counts)], 0), tensor.shape,
            ).coalesce()
        tensor.copy_(total)
    future = Future()
    future.set_result([tensor])
    return _FutureWork(future)
