"""Uneven inputs, parameters and outputs of special kinds, refusals."""

from __future__ import annotations

import corten as torch
import corten.distributed as dist
from corten import nn
from corten.nn.parallel import DistributedDataParallel as DDP
from ddp_world import DOUBLE, case, close, draw, same_everywhere, seeded


@case
def uneven_inputs():
    rank, size = dist.get_rank(), dist.get_world_size()
    make = lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))  # noqa: E731
    for static_size in (True, False):
        for unused in (False, True):
            model = DDP(seeded(make), find_unused_parameters=unused)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            passes = 0
            with model.join(divide_by_initial_world_size=static_size):
                for step in range(4 + 2 * rank):
                    optimizer.zero_grad()
                    model(draw((4, 3), step)).sum().backward()
                    optimizer.step()
                    passes += 1
            assert passes == 4 + 2 * rank
            same_everywhere(model)
            assert model._get_ddp_logging_data()["join_uneven_inputs"] == 1
    # The gradients of the ranks that have inputs, divided by their number.
    model = DDP(seeded(lambda: nn.Linear(1, 1, bias=False)))
    with model.join(divide_by_initial_world_size=False):
        for step in range(1 + rank):
            model.zero_grad()
            model(torch.full((1, 1), float(rank + 1), dtype=DOUBLE)).sum().backward()
            active = range(step, size)
            wanted = sum(each + 1 for each in active) / len(active)
            assert abs(model.module.weight.grad.item() - wanted) < 1e-12
    try:
        with model.join(throw_on_early_termination=True):
            for _ in range(2 + rank):
                model(torch.ones(1, 1, dtype=DOUBLE)).sum().backward()
    except RuntimeError as error:
        text = str(error)
        assert "exhausted" in text, text
    else:
        raise AssertionError("no error")


@case
def ignored_and_delayed_parameters():
    rank, size = dist.get_rank(), dist.get_world_size()
    module = seeded(lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), seed=rank)
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["0.weight"])
    model = DDP(module)
    x = torch.full((1, 2), float(rank + 1), dtype=DOUBLE)
    model(x).sum().backward()
    own = [torch.empty(2, 2, dtype=DOUBLE) for _ in range(size)]
    dist.all_gather(own, module[0].weight.grad)
    assert not torch.equal(own[0], own[1])
    assert len(list(DDP._get_data_parallel_params(module))) == 3
    module = seeded(lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), dtype=torch.float32)
    named = dict(module.named_parameters())
    delayed = [(name, named[name]) for name in ("0.weight", "0.bias")]
    model = DDP(
        module, delay_all_reduce_named_params=delayed, param_to_hook_all_reduce=named["1.weight"]
    )
    assert len(list(model._module_parameters)) == 2
    model(x.float()).sum().backward()
    assert named["0.weight"].grad is not None


@case
def sparse_gradients():
    rank, size = dist.get_rank(), dist.get_world_size()
    make = lambda: nn.Embedding(5, 2, sparse=True)  # noqa: E731
    model = DDP(seeded(make))
    for _ in range(2):
        model.zero_grad()
        model(torch.tensor([0, rank])).sum().backward()
    grad = model.module.weight.grad
    wanted = torch.zeros(5, 2, dtype=DOUBLE)
    for each in range(size):
        wanted[0] += 1 / size
        wanted[each] += 1 / size
    assert grad.is_sparse
    close(grad.to_dense(), wanted, 1e-12)


@case
def refusals():
    rank, size = dist.get_rank(), dist.get_world_size()

    def refused(kind, text, function):
        try:
            function()
        except kind as error:
            assert text in str(error), str(error)
        else:
            raise AssertionError(f"no error: {text}")

    frozen = seeded(lambda: nn.Linear(2, 2))
    for param in frozen.parameters():
        param.requires_grad_(False)
    refused(RuntimeError, "doesn't have any parameter that requires a gradient", lambda: DDP(frozen))
    linear = seeded(lambda: nn.Linear(2, 2))
    refused(ValueError, "device_ids can only be None or contain a single element.",
            lambda: DDP(linear, device_ids=[0, 1]))
    refused(ValueError, "only work with single-device/multiple-device GPU modules or CPU modules",
            lambda: DDP(linear, device_ids=[0]))
    refused(RuntimeError, "appears not to match sizes of the same param in process",
            lambda: DDP(nn.Linear(2, 2 + rank)))
    refused(RuntimeError, "DDP expects same model across all ranks",
            lambda: DDP(nn.Linear(2, 2, bias=rank == 0)))
    model = DDP(linear)
    refused(ValueError, "sample rate", lambda: model._set_ddp_runtime_logging_sample_rate(0))
    model(torch.ones(1, 2, dtype=DOUBLE)).sum().backward()
    refused(RuntimeError, "should be called before training loop starts", model._set_static_graph)
    data = DDP(seeded(lambda: nn.Linear(2, 2)))._get_ddp_logging_data()
    assert data["world_size"] == size and data["rank"] == rank and data["module_name"] == "Linear"


@case
def manual_finalization():
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DDP(seeded(lambda: nn.Linear(1, 1, bias=False)), lazy_bucket_allocation=True)
    model.require_manual_backward_finalization = True
    for step in range(3):
        model.zero_grad()
        loss = model(torch.full((1, 1), float(rank + 1), dtype=DOUBLE)).sum()
        assert model.should_finalize_after_backward == (step == 0), step
        loss.backward()
        model.finalize_backward()
        model._check_reducer_finalized()
        assert model.module.weight.grad.item() == sum(range(1, size + 1)) / size


@case
def several_forward_passes():
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DDP(seeded(lambda: nn.Linear(1, 1, bias=False)))
    for _ in range(3):
        model.zero_grad()
        first = model(torch.full((1, 1), float(rank), dtype=DOUBLE))
        second = model(torch.full((1, 1), 2.0, dtype=DOUBLE))
        (first + second).sum().backward()
        assert abs(model.module.weight.grad.item() - (2 + (size - 1) / 2)) < 1e-12


@case
def sampler():
    from corten.utils.data import DataLoader, DistributedSampler, TensorDataset

    rank, size = dist.get_rank(), dist.get_world_size()
    data = TensorDataset(torch.arange(11))
    for drop_last in (False, True):
        sampler = DistributedSampler(data, shuffle=True, seed=3, drop_last=drop_last)
        assert (sampler.rank, sampler.num_replicas) == (rank, size)
        sampler.set_epoch(1)
        mine = torch.cat([batch for batch, in DataLoader(data, batch_size=2, sampler=sampler)])
        all_parts = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(all_parts, mine)
        seen = torch.cat(all_parts)
        assert len(seen) == sampler.total_size
        assert len(set(seen.tolist())) == (sampler.total_size if drop_last else 11)
