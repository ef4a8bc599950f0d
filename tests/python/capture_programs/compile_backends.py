"""Backends of ``torch.compile`` that users write: they get graphs, look at them, and give functions."""

from typing import List

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

seen = []


def my_compiler(gm: torch.fx.GraphModule, example_inputs: List[torch.Tensor]):
    names = [str(getattr(node.target, "__name__", node.target)) for node in gm.graph.nodes if node.op.startswith("call")]
    seen.append((len(example_inputs), len(names)))
    return gm.forward


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    return x * b


fn = torch.compile(toy, backend=my_compiler)
torch.manual_seed(0)
a, b = torch.randn(10), torch.randn(10)
print(torch.allclose(fn(a, b), toy(a, b)), fn(a, b).sum().item())
fn(a, b)
print("graphs", len(seen), seen[0][0])
fn(a.double(), b.double())
print("graphs", len(seen))


def inspecting(gm, inputs):
    print("forward or backward:", len(list(gm.graph.nodes)) > 0, all(isinstance(one, torch.Tensor) for one in inputs))
    return make_boxed_func(gm.forward)


aot = aot_autograd(fw_compiler=inspecting)
layer = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
compiled = torch.compile(layer, backend=aot)
out = compiled(torch.ones(3, 4))
out.sum().backward()
print(out.shape, layer[0].weight.grad.abs().sum().item() > 0)

count = 0


@torch._dynamo.register_backend
def counting(gm, inputs):
    global count
    count += 1
    return gm


print("counting" in torch._dynamo.list_backends(), torch.compile(toy, backend="counting")(a, b).shape, count)

try:
    torch.compile(toy, backend="no_such_backend")(a, b)
except Exception as error:
    print(type(error).__name__)
try:
    torch.compile(toy, mode="no_such_mode")(a, b)
except RuntimeError as error:
    print(str(error).split(",")[0])


@torch.compile(fullgraph=True)
def data_dependent(x):
    if x.sum().item() > 0:
        return x + 1
    return x - 1


try:
    data_dependent(torch.ones(3))
except Exception as error:
    print("refused")
torch._dynamo.reset()
print(torch.compiler.list_backends() == torch._dynamo.list_backends(), torch.compile(toy)(a, b).shape)
