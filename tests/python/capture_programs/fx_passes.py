"""``make_fx``, functionalisation, tensors without data, passes over graphs."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module
from torch.utils._python_dispatch import TorchDispatchMode


def f(x):
    y = x.sin()
    y.add_(1)
    return y.view(-1).cos().sum()


print(make_fx(f)(torch.ones(2, 3)).code)
print(make_fx(functionalize(f))(torch.ones(2, 3)).code)
print(make_fx(functionalize(f, remove="mutations_and_views"))(torch.ones(2, 3)).code)
print(make_fx(grad(lambda x: (x * x).sum()))(torch.ones(2)).code)
symbolic = make_fx(lambda x: torch.zeros(x.shape[0] * 2) + x.mean(), tracing_mode="symbolic")(torch.ones(3, 4))
print(symbolic.code, symbolic(torch.ones(5, 7)).shape)
table = torch._decomp.get_decompositions([torch.ops.aten.silu, torch.ops.aten.addmm])
print(make_fx(lambda x, w, b: torch.nn.functional.silu(torch.addmm(b, x, w)), decomposition_table=table)(
    torch.ones(2, 2), torch.ones(2, 2), torch.ones(2)).code)

with FakeTensorMode() as mode:
    layer = nn.Linear(100, 200)
    out = layer(torch.empty(50, 100))
    print(out.shape, out.device, type(out).__name__)
fake = mode.from_tensor(torch.ones(4, 4, dtype=torch.bfloat16))
print((fake @ fake).dtype, fake.t().stride())


class Logging(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func, end=" ")
        return func(*args, **(kwargs or {}))


with Logging():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    model(torch.ones(1, 2)).sum()
print()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = self.fc1(x).relu()
        return self.fc2(x).softmax(-1)


traced = torch.fx.symbolic_trace(Net())
ShapeProp(traced).propagate(torch.ones(3, 4))
print([(node.name, tuple(node.meta["tensor_meta"].shape)) for node in traced.graph.nodes if "tensor_meta" in node.meta])
parts = split_module(traced, Net(), lambda node: 0 if node.name in ("fc1", "relu") else 1)
print(parts.code, [name for name, _ in parts.named_children()], parts(torch.ones(1, 4)).shape)


class Tracer(torch.fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, Net) or super().is_leaf_module(module, name)


outer = nn.Sequential(Net(), nn.Linear(2, 1))
print([(node.op, node.target) for node in Tracer().trace(outer).nodes])

from functorch.compile import aot_function, make_boxed_func  # noqa: E402

shown = []


def show(gm, inputs):
    shown.append([str(node.target) for node in gm.graph.nodes if node.op == "call_function"])
    return make_boxed_func(gm.forward)


compiled = aot_function(lambda a, b: (a * b).sin().sum(), fw_compiler=show, bw_compiler=show)
a, b = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
compiled(a, b).backward()
print(shown, a.grad.tolist())


def uses_numbers(x, n):
    return x * n + len(x)


graph = make_fx(uses_numbers, tracing_mode="fake")(torch.ones(3), 2)
print(graph.code, graph(torch.ones(3), 2).tolist())
try:
    make_fx(lambda x: x if x.sum() > 0 else -x)(torch.ones(2))
except RuntimeError as error:
    print(str(error)[:60])
