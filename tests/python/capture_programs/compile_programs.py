"""Compiled functions of many shapes: dynamic sizes, caches, hooks, transforms, custom operators, random numbers."""

import torch
from torch import nn


@torch.compile(dynamic=True)
def pool(x, lengths):
    mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
    return (x * mask[..., None]).sum(1) / lengths[:, None]


for n, t in ((2, 3), (4, 7), (1, 1)):
    x = torch.arange(float(n * t * 2)).view(n, t, 2)
    print(pool(x, torch.full((n,), t)).tolist())

x = torch.ones(5, 3)
torch._dynamo.mark_dynamic(x, 0)
print(torch.compile(lambda x: x * x.shape[0])(x).sum().item())


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x, cache=None):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.out(y.transpose(1, 2).reshape(b, t, w)), (k, v)


attention = torch.compile(Attention(8, 2))
tokens = torch.linspace(-1, 1, 2 * 6 * 8).view(2, 6, 8)
whole, _ = attention(tokens)
part, cache = attention(tokens[:, :5])
last, _ = attention(tokens[:, 5:], cache)
print(torch.allclose(whole[:, 5:], last, atol=1e-5), whole.sum().item())


@torch.library.custom_op("programs::clip", mutates_args=())
def clip(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x.clamp(-limit, limit)


@clip.register_fake
def _(x, limit):
    return torch.empty_like(x)


def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.limit = inputs[1]


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (x.abs() < ctx.limit), None


clip.register_autograd(backward, setup_context=setup)
x = torch.linspace(-2, 2, 5, requires_grad=True)
torch.compile(lambda x: (clip(x, 1.0) * 3).sum())(x).backward()
print(x.grad.tolist())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


x = torch.ones(3, requires_grad=True)
torch.compile(lambda x: Square.apply(x).sum())(x).backward()
print(x.grad.tolist(), torch.compile(torch.func.vmap(lambda x: x.sum() * 2))(torch.ones(2, 3)).tolist())
print(torch.compile(torch.func.grad(lambda x: (x ** 3).sum()))(torch.full((2,), 2.0)).tolist())

model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
calls = []
model[0].register_forward_hook(lambda module, args, out: calls.append(tuple(out.shape)))
compiled = torch.compile(model)
compiled(torch.ones(2, 3))
compiled(torch.ones(2, 3))
print(len(calls) >= 1, calls[0])


@torch.compile(backend="eager")
def noise(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand(3)


torch.manual_seed(7)
first = noise(torch.ones(3))
torch.manual_seed(7)
print(noise(torch.ones(3)).equal(first))


@torch.compile
def prints(values):
    total = torch.zeros(())
    for name, value in values.items():
        total = total + value.sum()
    values["total"] = total
    return total


values = {"a": torch.ones(2), "b": torch.ones(3)}
print(prints(values).item(), list(values), values["total"].item())


@torch.compile
def generator(n):
    return [torch.full((i,), float(i)) for i in range(1, n)]


print([one.tolist() for one in generator(4)])
with torch.no_grad():
    print(torch.compile(lambda x: x.add_(1).view(-1)[1:])(torch.zeros(2, 2)).tolist())
with torch.compiler.set_stance("force_eager"):
    print(pool(torch.ones(1, 2, 2), torch.tensor([2])).tolist())
with torch.autocast("cpu", dtype=torch.bfloat16):
    print(torch.compile(nn.Linear(2, 2))(torch.ones(1, 2)).dtype)
explanation = torch._dynamo.explain(lambda x: x.sin().cos())(torch.ones(2))
print(type(explanation).__name__, explanation.graph_break_count)
