"""Steps of training over several ranks: equal to one process, whatever the options."""

from __future__ import annotations

import copy
import io
import warnings

import corten as torch
import corten.distributed as dist
from corten import nn
from corten.nn.parallel import DistributedDataParallel as DDP
from ddp_world import (
    DOUBLE, Gpt, ResNet, case, close, compare_with_one_process, draw, gpt_loss, resnet_loss, same_everywhere, seeded,
    words,
)


@case
def gpt():
    compare_with_one_process(
        Gpt, gpt_loss, lambda step, rank: words(2, 10 * step + rank), 50, bucket_cap_mb=0.001
    )


@case
def gpt_with_views():
    model = compare_with_one_process(
        Gpt, gpt_loss, lambda step, rank: words(2, 10 * step + rank), 5, gradient_as_bucket_view=True
    )
    storages = {param.grad.untyped_storage().data_ptr() for param in model.parameters()}
    assert len(storages) < len(list(model.parameters()))
    data = model._get_ddp_logging_data()
    assert data["has_rebuilt_buckets"] == 1 and data["iteration"] == 5


@case
def resnet():
    compare_with_one_process(ResNet, resnet_loss, lambda step, rank: 10 * step + rank, 50)


@case
def static_graph():
    compare_with_one_process(
        Gpt, gpt_loss, lambda step, rank: words(2, 10 * step + rank), 4, static_graph=True
    )


@case
def static_graph_with_checkpoints():
    """Parameters that a pass reaches twice, from passes within passes."""
    from corten.utils.checkpoint import checkpoint

    rank, size = dist.get_rank(), dist.get_world_size()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.unused = nn.Linear(3, 3), nn.Linear(2, 2)

        def forward(self, x):
            x = checkpoint(self.layer, x, use_reentrant=True)
            return checkpoint(self.layer, x, use_reentrant=True)

    model = DDP(seeded(Twice), static_graph=True)
    for step in range(4):
        model.zero_grad()
        x = draw((2, 3), step * size + rank).requires_grad_()
        model(x).sum().backward()
        alone = seeded(Twice)
        for each in range(size):
            (alone(draw((2, 3), step * size + each).requires_grad_()).sum() / size).backward()
        close(model.module.layer.weight.grad, alone.layer.weight.grad, 1e-12)
        assert model.module.unused.weight.grad is None


@case
def no_sync():
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = seeded(ResNet)
    for each in range(size):
        for micro in range(3):
            (resnet_loss(alone, 10 * micro + each) / size).backward()
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = DDP(seeded(ResNet), **options)
        with model.no_sync():
            for micro in range(2):
                resnet_loss(model, 10 * micro + rank).backward()
            assert not model.require_backward_grad_sync
        resnet_loss(model, 20 + rank).backward()
        for mine, theirs in zip(model.parameters(), alone.parameters()):
            close(mine.grad, theirs.grad, 1e-12)


class Branches(nn.Module):
    """Uses one of two layers; the third never."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

    def forward(self, x, which):
        return self.layers[which](x)


@case
def unused_parameters():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.ones(1, 2, dtype=DOUBLE)
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = DDP(seeded(Branches), find_unused_parameters=True, **options)
        for step in range(3):
            model.zero_grad()
            model(x, min(rank, 1)).sum().backward()
            close(model.module.layers[0].bias.grad, torch.ones(2, dtype=DOUBLE) / size, 1e-12)
            close(
                model.module.layers[1].bias.grad, torch.ones(2, dtype=DOUBLE) * (size - 1) / size, 1e-12
            )
            assert model.module.layers[2].weight.grad is None
    model = DDP(seeded(Branches))
    model(x, 0).sum().backward()
    try:
        model(x, 0)
    except RuntimeError as error:
        text = str(error)
        assert text.startswith("Expected to have finished reduction in the prior iteration before starting")
        assert f"did not receive grad for rank {rank}: 2 3 4 5\n" in text, text
    else:
        raise AssertionError("no error")
    assert model._get_ddp_logging_data()["has_error"] == 1


@case
def outputs_that_the_loss_leaves_out():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return {"a": self.a(x), "b": [self.b(x)]}

    model = DDP(seeded(Two), find_unused_parameters=True)
    for _ in range(3):
        model(torch.ones(1, 2, dtype=DOUBLE))["a"].sum().backward()
    assert model.module.b.weight.grad is None and model.module.a.weight.grad is not None


@case
def buffers():
    rank = dist.get_rank()

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, dtype=DOUBLE))
            self.register_buffer("seen", torch.full((2,), float(dist.get_rank()), dtype=DOUBLE))
            self.register_buffer("count", torch.tensor(dist.get_rank()))

        def forward(self, x):
            self.seen += x
            return self.weight * self.seen

    model = DDP(Counter())
    assert model.module.count.item() == 0 and model.module.seen[0].item() == 0
    for step in range(3):
        model(torch.full((2,), float(rank + 1), dtype=DOUBLE)).sum().backward()
        assert model.module.seen[0].item() == step + rank + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DDP(Counter(), broadcast_buffers=False)
    assert any("broadcast_buffers" in str(each.message) for each in caught)
    assert model.module.count.item() == rank and not model.will_sync_module_buffers()
    model = DDP(Counter(), forward_sync_buffers=False)
    assert model.module.count.item() == 0
    model._register_buffer_comm_hook(None, lambda state, named: None)
    model(torch.ones(2, dtype=DOUBLE)).sum().backward()


@case
def states():
    rank = dist.get_rank()
    model = DDP(seeded(ResNet, seed=rank))
    resnet_loss(model, rank).backward()
    state = model.state_dict()
    assert all(name.startswith("module.") for name in state)
    other = DDP(seeded(ResNet, seed=5))
    other.load_state_dict(state)
    same_everywhere(other)
    for mine, theirs in zip(model.parameters(), other.parameters()):
        assert torch.equal(mine, theirs)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    resnet_loss(read, rank).backward()
    for mine, theirs in zip(model.parameters(), read.parameters()):
        close(mine.grad, theirs.grad, 1e-12)
    part = DDP(seeded(ResNet), process_group=dist.new_group(list(range(dist.get_world_size()))))
    try:
        copy.deepcopy(part)
    except RuntimeError as error:
        assert "DDP Pickling/Unpickling are only supported" in str(error)
    else:
        raise AssertionError("no error")


@case
def mixed_precision():
    from corten.nn.parallel.distributed import _MixedPrecision

    low, full, seen = torch.bfloat16, torch.float32, []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.cell, self.last = nn.Linear(4, 6), nn.GRU(6, 4), nn.Linear(6, 4)
            self.again = self.first
            self.register_buffer("scale", torch.ones(6))

        def forward(self, x, factor):
            seen.append((x.dtype, factor.dtype, self.first.weight.dtype, self.scale.dtype))
            x = self.cell(self.first(x) * self.scale)[0]
            return self.last(self.again(x)) * factor

    def filled():
        return seeded(Model, 1, full)

    generator = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(3, 2, 4, generator=generator)
    for reduce_dtype in (None, full):
        model = filled()
        ddp = DDP(model, mixed_precision=_MixedPrecision(low, reduce_dtype, low))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        output = ddp(x, factor=torch.ones(()))
        assert output.dtype == low and seen.pop() == (low, low, low, low)
        assert {p.dtype for p in model.parameters()} == {full} and model.first.weight.dtype == full
        assert all(weight.dtype == full for weight in model.cell._flat_weights)
        with torch.no_grad():
            assert model.first.weight is dict(model.named_parameters())["first.weight"]
        output.float().pow(2).sum().backward()
        # The same by hand.
        alone = filled().to(low)
        alone(x.to(low), torch.ones((), dtype=low)).float().pow(2).sum().backward()
        dtype = reduce_dtype or low
        for parameter, other in zip(model.parameters(), alone.parameters()):
            expected = other.grad.to(dtype) / dist.get_world_size()
            dist.all_reduce(expected)
            assert parameter.grad.dtype == full
            torch.testing.assert_close(parameter.grad, expected.float(), rtol=0, atol=0)
        optimizer.step()
        assert all((a - b).abs().max() > 0 for a, b in zip(before, model.parameters()))
