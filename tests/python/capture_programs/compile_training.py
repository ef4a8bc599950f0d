"""Training with ``torch.compile``: modules, functions, decorators, modes, regions that stay eager."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.lin1 = nn.Linear(width, 2 * width)
        self.lin2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.lin2(F.gelu(self.lin1(self.norm(x))))


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 16), Block(16), Block(16), nn.Linear(16, 3))


def train(model, steps=5):
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 10, generator=generator)
        y = (x.sum(1) > 0).long() + (x[:, 0] > 1).long()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses


def foo(x, y):
    a = torch.sin(x)
    b = torch.cos(y)
    return a + b


@torch.compile
def decorated(x, y):
    return torch.sin(x) * torch.cos(y)


@torch.compiler.disable
def helper(x):
    return x * x.item() if x.numel() == 1 else x * 2


@torch.compile
def calls_helper(x):
    y = x.relu() + 1
    y = helper(y)
    torch._dynamo.graph_break()
    return y.sum()


print("eager", train(make_model()))
for options in ({}, {"mode": "reduce-overhead"}, {"backend": "eager"}, {"backend": "aot_eager", "dynamic": True}):
    compiled = torch.compile(make_model(), **options)
    print(sorted(options.items()), train(compiled))

torch.manual_seed(2)
x, y = torch.randn(4, 4), torch.randn(4, 4)
print(torch.allclose(torch.compile(foo)(x, y), foo(x, y)), decorated(x, y).sum().item(), calls_helper(x).item())

model = make_model()
compiled = torch.compile(model)
print(type(compiled).__name__, compiled._orig_mod is model, list(compiled.state_dict())[:2])
print([name for name, _ in compiled.named_parameters()][-1], compiled.training, compiled.eval().training, model.training)
model.load_state_dict(make_model().state_dict())
with torch.no_grad():
    print(compiled(torch.ones(2, 10)).tolist())

model = make_model()
model.compile()
print(model(torch.ones(1, 10)).tolist(), callable(torch.compile(model, disable=True)))


@torch.compile(fullgraph=True)
def step(weight, grad, momentum):
    momentum.mul_(0.9).add_(grad)
    weight.sub_(momentum, alpha=0.1)
    return weight.norm()


weight, momentum = torch.ones(5), torch.zeros(5)
for i in range(4):
    print(round(step(weight, torch.full((5,), float(i)), momentum).item(), 4), end=" ")
print(weight.tolist())


@torch.compile
def branches(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


print(branches(torch.ones(2)).tolist(), branches(-torch.ones(2)).tolist())
opt = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile
def optimize():
    opt.step()


loss = model(torch.ones(1, 10)).sum()
loss.backward()
optimize()
print(round(model(torch.ones(1, 10)).sum().item(), 4), torch.compiler.is_compiling())
