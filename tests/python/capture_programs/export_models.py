"""``torch.export``: graphs, signatures, dynamic sizes, control flow, files."""

import io

import torch
from torch.export import Dim, ExportedProgram, export


class Mod(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, y):
        self.calls.add_(1)
        return torch.nn.functional.relu(self.lin(x + y), inplace=True)


torch.manual_seed(0)
mod = Mod()
args = (torch.randn(8, 100), torch.randn(8, 100))
program: ExportedProgram = export(mod, args)
print(type(program).__name__)
print([(node.op, str(node.target)) for node in program.graph.nodes])
print(program.graph_signature.parameters, program.graph_signature.buffers, program.graph_signature.user_inputs)
print(dict(program.graph_signature.buffers_to_mutate))
print(program.module()(*args).sum().item(), sorted(program.state_dict))
try:
    program.module()(torch.randn(4, 100), torch.randn(4, 100))
except AssertionError as error:
    print("refused", "8" in str(error))
decomposed = program.run_decompositions()
print([str(node.target) for node in decomposed.graph.nodes if node.op == "call_function"])


class Sizes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.branch1 = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU())
        self.branch2 = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.ReLU())
        self.buffer = torch.nn.Buffer(torch.ones(32))

    def forward(self, x1, x2):
        return self.branch1(x1) + self.buffer, self.branch2(x2)


batch = Dim("batch", min=2, max=1024)
sizes = export(Sizes(), (torch.randn(32, 64), torch.randn(32, 128)), dynamic_shapes={"x1": {0: batch}, "x2": {0: batch}})
print(len(sizes.range_constraints), [(r.lower, r.upper) for r in sizes.range_constraints.values()])
for n in (2, 7, 100):
    one, two = sizes.module()(torch.ones(n, 64), torch.ones(n, 128))
    print(tuple(one.shape), tuple(two.shape))
try:
    sizes.module()(torch.ones(3, 64), torch.ones(4, 128))
except Exception as error:
    print("refused")
auto = export(Sizes(), (torch.randn(32, 64), torch.randn(32, 128)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.DYNAMIC}))
print(tuple(auto.module()(torch.ones(5, 64), torch.ones(9, 128))[1].shape))


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


both = export(Cond(), (torch.ones(3),))
print(both.module()(torch.ones(3)).sum().item(), both.module()(-torch.ones(3)).sum().item())
print([str(node.target) for node in both.graph.nodes if node.op == "call_function" and "cond" in str(node.target)])


class Items(torch.nn.Module):
    def forward(self, x, y):
        n = x.item()
        torch._check(n >= 0)
        torch._check(n <= y.shape[0])
        return y[:n]


items = export(Items(), (torch.tensor(4), torch.arange(6.0)))
print(items.module()(torch.tensor(2), torch.arange(6.0)).tolist())
try:
    items.module()(torch.tensor(20), torch.arange(6.0))
except RuntimeError as error:
    print("refused")


@torch.library.custom_op("tutorial::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


class Custom(torch.nn.Module):
    def forward(self, x):
        return double(x.sin()) + torch.ops.tutorial.double(x)


print([str(node.target) for node in export(Custom(), (torch.ones(2),)).graph.nodes if node.op == "call_function"])
buffer = io.BytesIO()
torch.export.save(program, buffer)
buffer.seek(0)
loaded = torch.export.load(buffer)
print(loaded.module()(*args).equal(program.module()(*args)), str(loaded.graph_signature.user_outputs))
flat = torch.export.unflatten(sizes)
print([name for name, _ in flat.named_children()], flat(torch.ones(2, 64), torch.ones(2, 128))[0].shape)
try:
    export(torch.nn.ReLU(), torch.ones(2))
except Exception as error:
    print(type(error).__name__)
trained = torch.export.export_for_training(mod, args) if hasattr(torch.export, "export_for_training") else program
print(trained.module()(*args).shape)
