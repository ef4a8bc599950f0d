"""More of ``torch.export``: keyword arguments, nested inputs and outputs, shapes by name, constants, training."""

import collections

import torch
from torch.export import Dim, ShapesCollection, export
from torch.utils import _pytree as pytree

Pair = collections.namedtuple("Pair", ["left", "right"])


class Nested(torch.nn.Module):
    def forward(self, batch, scale=1.0, *, mask=None):
        x = batch["x"] * scale
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        return {"sum": x.sum(dim=1), "parts": [part.mean() for part in batch["parts"]]}


inputs = ({"x": torch.ones(2, 3), "parts": [torch.arange(3.0), torch.ones(2)]},)
program = export(Nested(), inputs, {"scale": 2.0, "mask": torch.tensor([[True, False, False]])})
result = program.module()(*inputs, scale=2.0, mask=torch.tensor([[False, True, True]]))
print(result["sum"].tolist(), [one.item() for one in result["parts"]])
print(program.call_spec.in_spec.num_leaves, program.call_spec.out_spec.num_leaves)
print([spec.kind.name for spec in program.graph_signature.input_specs])


class Constants(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.arange(4.0)
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(4)) for _ in range(2)])

    def forward(self, x):
        for weight in self.weights:
            x = x * weight + self.table
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0])


constants = export(Constants(), (torch.ones(4),))
print(sorted(constants.constants), sorted(constants.state_dict), constants.module()(torch.ones(4)).tolist())


class Shapes(torch.nn.Module):
    def forward(self, x, y):
        n, d = x.shape
        z = x.reshape(n // 2, 2 * d)
        return z, y.expand(n, d) + x, torch.cat([x, x], dim=0)


x, y = torch.randn(6, 4), torch.randn(1, 4)
named = ShapesCollection()
named[x] = {0: Dim.DYNAMIC}
shapes = export(Shapes(), (x, y), dynamic_shapes=named)
print([tuple(one.shape) for one in shapes.module()(torch.randn(10, 4), torch.randn(1, 4))])
size = Dim("half") * 2
even = export(Shapes(), (x, y), dynamic_shapes={"x": {0: size}, "y": None})
print([tuple(one.shape) for one in even.module()(torch.randn(12, 4), torch.randn(1, 4))])
try:
    export(Shapes(), (x, y), dynamic_shapes={"x": {0: Dim("n"), 1: Dim("d")}, "y": None})
except torch._dynamo.exc.UserError as error:
    print("UserError")


class Views(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y[0].add_(1)
        y.view(-1)[::2] = 0
        return y, x.t()


views = export(Views(), (torch.ones(2, 3),))
print(views.module()(torch.ones(2, 3))[0].tolist())
functional = views.run_decompositions({})
print(any(str(node.target).endswith("add_.Tensor") for node in functional.graph.nodes))
print(functional.module()(torch.ones(2, 3))[0].tolist())

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4))
trained = export(model.train(), (torch.randn(5, 3),)).module()
torch.manual_seed(0)
out = trained(torch.randn(5, 3))
out.square().sum().backward()
print(out.shape, sorted(name for name, one in trained.named_parameters() if one.grad is not None))
evaluated = export(model.eval(), (torch.randn(5, 3),), dynamic_shapes=({0: Dim("b")},))
print([str(node.target) for node in evaluated.graph.nodes if node.op == "call_function"])
print(evaluated.module()(torch.zeros(2, 3)).shape)

pytree.register_dataclass if hasattr(pytree, "register_dataclass") else None
try:
    class Breaks(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x

    export(Breaks(), (torch.ones(2),))
except Exception as error:
    print("refused", isinstance(error, RuntimeError))
strict = export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), strict=True)
print(len(list(strict.graph.nodes)), strict.module()(torch.zeros(1, 2)).shape)
print(Pair(*export(torch.nn.Identity(), (torch.ones(1),)).module()(torch.ones(1)).tolist(), 2))
