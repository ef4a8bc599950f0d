"""``torch.fx``: tracing, graphs by hand, transformations, interpreters, patterns, fusion of convolutions."""

import copy
import operator

import torch
import torch.fx as fx
import torch.nn.functional as F
from torch import nn


class MyModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.arange(12.0).view(3, 4) / 10)
        self.linear = nn.Linear(4, 5)
        nn.init.constant_(self.linear.weight, 0.1)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        return torch.topk(torch.sum(self.linear(x + self.linear.weight[:3, :]).relu(), dim=-1), 3)


gm = fx.symbolic_trace(MyModule())
print(gm.graph)
print(gm.code)
for node in gm.graph.nodes:
    print(node.op, node.name, getattr(node.target, "__name__", node.target), node.args, dict(node.kwargs), len(node.users))
print(gm(torch.ones(3, 4)).values.tolist())


def transform(m):
    graph = fx.Tracer().trace(m)
    for node in graph.nodes:
        if node.op == "call_function" and node.target == torch.add:
            node.target = torch.mul
    graph.lint()
    return fx.GraphModule(m, graph)


class Adds(nn.Module):
    def forward(self, x, y):
        return torch.add(x, y) + F.relu(torch.add(x, 2))


print(transform(Adds())(torch.full((2,), 3.0), torch.full((2,), 4.0)).tolist())

graph = fx.Graph()
x = graph.placeholder("x")
doubled = graph.call_function(operator.mul, (x, 2))
with graph.inserting_before(doubled):
    shifted = graph.call_function(torch.neg, (x,))
graph.output((doubled, graph.call_method("abs", (shifted,))))
made = fx.GraphModule({}, graph, "Made")
print(made.code, made(torch.tensor(-1.5)), type(made).__name__)
made.graph.eliminate_dead_code()


def relu_decomposition(x):
    return (x > 0) * x


def decompose(model):
    old = fx.symbolic_trace(model).graph
    new, env = fx.Graph(), {}
    tracer = fx.proxy.GraphAppendingTracer(new)
    for node in old.nodes:
        if node.op == "call_function" and node.target == F.relu:
            proxy = relu_decomposition(*[fx.Proxy(env[one.name], tracer) for one in node.args])
            env[node.name] = proxy.node
        else:
            env[node.name] = new.node_copy(node, lambda one: env[one.name])
    return fx.GraphModule(model, new)


print(decompose(Adds()).code)


class ShapeProp:
    def __init__(self, mod):
        self.mod, self.graph, self.modules = mod, mod.graph, dict(mod.named_modules())

    def propagate(self, *args):
        inputs, env, found = iter(args), {}, []

        def load(arg):
            return fx.graph.map_arg(arg, lambda n: env[n.name])

        for node in self.graph.nodes:
            if node.op == "placeholder":
                result = next(inputs)
            elif node.op == "get_attr":
                result = self.mod.get_parameter(node.target)
            elif node.op == "call_function":
                result = node.target(*load(node.args), **load(node.kwargs))
            elif node.op == "call_method":
                obj, *rest = load(node.args)
                result = getattr(obj, node.target)(*rest, **load(node.kwargs))
            elif node.op == "call_module":
                result = self.modules[node.target](*load(node.args), **load(node.kwargs))
            else:
                break
            if isinstance(result, torch.Tensor):
                found.append((node.name, tuple(result.shape)))
            env[node.name] = result
        return found


print(ShapeProp(gm).propagate(torch.ones(3, 4)))


class CountingInterpreter(fx.Interpreter):
    def __init__(self, module):
        super().__init__(module)
        self.calls = []

    def run_node(self, n):
        self.calls.append(n.op)
        return super().run_node(n)


interpreter = CountingInterpreter(gm)
print(interpreter.run(torch.ones(3, 4)).indices.shape, interpreter.calls)


class NegToAbs(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return torch.abs(*args) if target is torch.neg else super().call_function(target, args, kwargs)


print(NegToAbs(fx.symbolic_trace(lambda x: torch.neg(x) + 1)).transform().code)


def pattern(w1, w2):
    return torch.cat([w1, w2]).sum()


def replacement(w1, w2):
    return torch.stack([w1, w2]).max()


class Sums(nn.Module):
    def forward(self, x, w1, w2):
        m1 = torch.cat([w1, w2]).sum()
        m2 = torch.cat([w2, w1]).sum()
        return x + torch.max(m1) + torch.max(m2)


sums = fx.symbolic_trace(Sums())
print(len(fx.replace_pattern(sums, pattern, replacement)))
print(sums.code)


def fuse(conv, bn):
    fused = copy.deepcopy(conv)
    scale = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    fused.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
    fused.bias = nn.Parameter((conv.bias - bn.running_mean) * scale + bn.bias)
    return fused


class ConvBN(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.nested = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, x):
        return self.nested(self.bn1(self.conv1(x)))


def fuse_all(model):
    model = copy.deepcopy(model)
    traced = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op != "call_module" or node.args[0].op != "call_module":
            continue
        if type(modules[node.target]) is nn.BatchNorm2d and type(modules[node.args[0].target]) is nn.Conv2d:
            parent, _, name = node.args[0].target.rpartition(".")
            fused = fuse(modules[node.args[0].target], modules[node.target])
            setattr(traced.get_submodule(parent), name, fused)
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    return traced


model = ConvBN().eval()
fused = fuse_all(model)
image = torch.linspace(0, 1, 75).view(1, 3, 5, 5)
print(fused.code, torch.allclose(fused(image), model(image), atol=1e-5))
print([type(one).__name__ for one in fused.modules()])
print(torch.fx.experimental.optimization.fuse(model)(image).shape if hasattr(torch.fx.experimental, "optimization") else image.shape)
try:
    fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
except fx.proxy.TraceError as error:
    print(error)


@fx.wrap
def half(x):
    return x / 2


print(fx.symbolic_trace(lambda x: half(x) + 1).code)
print(fx.symbolic_trace(lambda x, flag: x if flag else -x, concrete_args={"flag": True}).code)
