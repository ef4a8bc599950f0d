"""Models, data and comparisons of the programs of several ranks that ``ddp_cases.py`` runs."""

from __future__ import annotations

import corten as torch
import corten.distributed as dist
from corten import nn
from corten.nn import functional as F  # noqa: N812
from corten.nn.parallel import DistributedDataParallel as DDP

DOUBLE = torch.float64
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Layer(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, words=17, width=8, layers=1):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(6, width)
        self.blocks = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.blocks(h))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.norm(self.conv1(x)))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.body = nn.Sequential(Residual(4), nn.AvgPool2d(2), Residual(4))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def seeded(make, seed=0, dtype=DOUBLE):
    """A module whose numbers depend on the seed alone; ranks that are threads share the generator."""
    module = make().to(dtype)
    generator = torch.Generator()
    generator.manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=dtype) * 0.3)
    return module


def draw(shape, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=DOUBLE)


def words(count, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randint(0, 17, (count, 6), generator=generator)


def close(a, b, tolerance=1e-6):
    assert a.shape == b.shape, (a.shape, b.shape)
    assert (a - b).abs().max().item() <= tolerance, (a - b).abs().max().item()


def same_everywhere(module):
    """All ranks have the same bits."""
    flat = torch.cat([tensor.detach().reshape(-1).to(DOUBLE) for tensor in module.state_dict().values()])
    others = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(others, flat)
    assert all(torch.equal(flat, other) for other in others)


def gpt_loss(model, batch):
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def resnet_loss(model, batch):
    x = draw((2, 3, 4, 4), batch)
    return F.mse_loss(model(x), draw((2, 5), batch + 1000))


def train(model, optimizer, losses, steps, hook=lambda: None):
    values = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = losses(step)
        loss.backward()
        hook()
        optimizer.step()
        values.append(loss.detach())
    return torch.stack(values)


def compare_with_one_process(make, loss_of, batches, steps, **options):
    """Losses and parameters of steps equal those that rank 0 gets alone from the batches of all ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    alone, wanted = seeded(make), torch.empty(steps, dtype=DOUBLE)
    if rank == 0:
        optimizer = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9)
        wanted = train(
            alone, optimizer,
            lambda step: sum(loss_of(alone, batches(step, each)) for each in range(size)) / size, steps,
        )
    for tensor in [wanted, *alone.parameters()]:
        dist.broadcast(tensor.detach(), 0)
    # Other numbers on other ranks: those of rank 0 count.
    model = DDP(seeded(make, seed=rank), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    found = train(model, optimizer, lambda step: loss_of(model, batches(step, rank)), steps)
    dist.all_reduce(found)
    close(found / size, wanted)
    for mine, theirs in zip(model.module.parameters(), alone.parameters()):
        close(mine, theirs)
    same_everywhere(model)
    return model
