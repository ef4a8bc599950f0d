"""Optimizers that are spread over ranks, or that run within backward."""

from __future__ import annotations

import corten as torch
import corten.distributed as dist
from corten import nn
from corten.nn.parallel import DistributedDataParallel as DDP
from ddp_world import ResNet, case, close, draw, resnet_loss, same_everywhere, seeded, train


@case
def zero():
    from corten.distributed.optim import ZeroRedundancyOptimizer

    rank = dist.get_rank()
    batches = lambda step: 10 * step + rank  # noqa: E731
    for views in (False, True):
        plain = DDP(seeded(ResNet))
        optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.1)
        train(plain, optimizer, lambda step: resnet_loss(plain, batches(step)), 3)
        model = DDP(seeded(ResNet))
        spread = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=views, lr=1e-2,
            weight_decay=0.1,
        )
        train(model, spread, lambda step: resnet_loss(model, batches(step)), 3)
        for mine, theirs in zip(model.parameters(), plain.parameters()):
            assert torch.equal(mine, theirs)
        assert len(spread.optim.state) < len(optimizer.state)
        try:
            spread.state_dict()
        except RuntimeError as error:
            assert "has not been consolidated on this rank" in str(error)
        else:
            raise AssertionError("no error")
        spread.consolidate_state_dict(to=0)
        states = [spread.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(states, src=0)
        whole, wanted = states[0], optimizer.state_dict()
        assert set(whole["state"]) == set(wanted["state"])
        for index, state in wanted["state"].items():
            for name, value in state.items():
                close(whole["state"][index][name], value, 0)
        again = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1)
        again.load_state_dict(whole)
        assert again.optim.param_groups[0]["lr"] == 1e-2
        train(plain, optimizer, lambda step: resnet_loss(plain, batches(step)), 3)
        train(model, again, lambda step: resnet_loss(model, batches(step)), 3)
        for mine, theirs in zip(model.parameters(), plain.parameters()):
            assert torch.equal(mine, theirs)


@case
def zero_and_join():
    from corten.distributed.algorithms.join import Join
    from corten.distributed.optim import ZeroRedundancyOptimizer

    rank = dist.get_rank()
    model = DDP(seeded(lambda: nn.Linear(3, 3)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimizer]):
        for step in range(3 + rank):
            optimizer.zero_grad()
            model(draw((2, 3), step)).sum().backward()
            optimizer.step()
    same_everywhere(model)


@case
def optimizers_in_backward():
    from corten.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers

    rank = dist.get_rank()
    plain = DDP(seeded(ResNet))
    train(
        plain, torch.optim.SGD(plain.parameters(), lr=0.1), lambda step: resnet_loss(plain, step + rank), 4
    )
    for view in (False, True):
        module = seeded(ResNet)
        _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.1})
        assert len(_get_in_backward_optimizers(module)) == len(list(module.parameters()))
        model = DDP(module, gradient_as_bucket_view=view)
        for step in range(4):
            resnet_loss(model, step + rank).backward()
            assert all(param.grad is None for param in module.parameters())
        for mine, theirs in zip(module.parameters(), plain.parameters()):
            close(mine, theirs, 1e-12)
