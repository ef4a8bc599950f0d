"""Training over ranks that are threads beside training in one process."""

from __future__ import annotations

from module_under_test import torch

import corten.distributed as dist
from corten.distributed.device_mesh import init_device_mesh
from corten.distributed.fsdp import fully_shard
from corten.distributed.tensor import DTensor
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import filled

nn = torch.nn


class MLP(nn.Sequential):
    def __init__(self, layers=3):
        super().__init__(*[
            nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 4)) for _ in range(layers)
        ])


def sharded(model, mesh=None, **options):
    """Shards every block of a model, then the model."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),)) if mesh is None else mesh
    for block in getattr(model, "blocks", None) or list(model.children()):
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def momentum(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def share(batch, rank, size):
    """This rank's part of a batch."""
    return [part.chunk(size)[rank] for part in batch]


def inputs(steps=3, rows=8):
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield (torch.randn(rows, 4, generator=generator, dtype=torch.float64),)


def squares(output):
    return output.double().pow(2).mean()


def differences(model, reference):
    """How far the parameters of a sharded model are from those of one process."""
    worst = 0.0
    for parameter, expected in zip(model.parameters(), reference.parameters()):
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        worst = max(worst, (whole - expected).abs().max().item())
    return worst


def trained_alone(build, batches, loss, optimizer, size, clip, lr):
    """A model trained in one process, with the mean of the losses of every batch's parts, and its losses."""
    model = filled(build())
    optimizer = optimizer(model.parameters(), lr=lr)
    losses = []
    for batch in batches():
        optimizer.zero_grad()
        parts = [share(batch, i, size) for i in range(size)]
        # Statistics of batches are those of each rank's part.
        values = [loss(model(part[0]), *part[1:]) for part in parts]
        (sum(values) / size).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append([value.item() for value in values])
    return model, losses


def trained_beside(build, shard, batches, loss, optimizer=torch.optim.SGD, size=2, clip=None, lr=0.1):
    """The largest difference between training over ranks and in one process."""
    reference, losses = trained_alone(build, batches, loss, optimizer, size, clip, lr)
    start = filled(build())
    moved = min((a - b).abs().max().item() for a, b in zip(start.parameters(), reference.parameters()))
    assert moved > 1e-6, "nothing was trained"

    def run():
        rank = dist.get_rank()
        model = filled(build())
        model = shard(model) or model
        ours = optimizer(model.parameters(), lr=lr)
        worst = 0.0
        for batch, expected in zip(batches(), losses):
            ours.zero_grad()
            part = share(batch, rank, size)
            value = loss(model(part[0]), *part[1:])
            value.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            ours.step()
            worst = max(worst, abs(value.item() - expected[rank]))
        return max(worst, differences(model, reference))

    return max(run_threads(size, run))
