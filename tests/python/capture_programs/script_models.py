"""TorchScript: tracing and scripting of modules, their code, freezing, saving."""

import io
import os
import tempfile

import torch


class DecisionGate(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        else:
            return -x


class Cell(torch.nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate = gate
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, h):
        new_h = torch.tanh(self.gate(self.linear(x)) + h)
        return new_h, new_h


class RNNLoop(torch.nn.Module):
    def __init__(self, gate):
        super().__init__()
        torch.manual_seed(3)
        self.cell = torch.jit.trace(Cell(gate), (torch.rand(3, 4), torch.rand(3, 4)))

    def forward(self, xs):
        h, y = torch.zeros(3, 4), torch.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class WrapRNN(torch.nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.loop = torch.jit.script(RNNLoop(gate))

    def forward(self, xs):
        y, h = self.loop(xs)
        return torch.relu(y)


gate = torch.jit.script(DecisionGate())
loop = torch.jit.script(RNNLoop(gate))
traced = torch.jit.trace(WrapRNN(gate), torch.rand(10, 3, 4))
xs = torch.linspace(-1, 1, 5 * 3 * 4).view(5, 3, 4)
print(traced(xs).sum().item(), [name for name, _ in traced.named_parameters()])
file = io.BytesIO()
torch.jit.save(traced, file)
file.seek(0)
loaded = torch.jit.load(file)
print(loaded(xs).equal(traced(xs)), loaded.original_name, isinstance(loaded, torch.jit.ScriptModule))


class Counter(torch.nn.Module):
    scale: int
    names: list[str]

    def __init__(self):
        super().__init__()
        self.scale, self.names = 3, ["a", "b"]
        self.register_buffer("total", torch.zeros(1))

    def forward(self, x):
        self.total += x.sum()
        return self.helper(x) * self.scale

    @torch.jit.export
    def reset(self, to: float = 0.0) -> float:
        before = float(self.total)
        self.total.fill_(to)
        return before

    def helper(self, x):
        return x + len(self.names)

    @torch.jit.unused
    def not_compiled(self, x):
        return x.numpy().tolist()


counter = torch.jit.script(Counter())
print(counter(torch.ones(2)).tolist(), counter.total.item(), counter.reset(), counter.reset(2.0), counter.total.item())
with tempfile.TemporaryDirectory() as folder:
    counter.save(os.path.join(folder, "counter.pt"))
    again = torch.jit.load(os.path.join(folder, "counter.pt"))
print(again.scale, again.total.item(), again.reset(5.0))
frozen = torch.jit.freeze(torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()).eval()))
print(frozen(torch.zeros(1, 4)).shape)
print(torch.jit.optimize_for_inference(torch.jit.script(torch.nn.Linear(2, 2).eval()))(torch.zeros(1, 2)).shape)
print(isinstance(gate, torch.jit.ScriptModule), isinstance(traced, torch.jit.TracedModule) or isinstance(traced, torch.nn.Module))
try:
    torch.jit.trace(DecisionGate(), torch.ones(2), check_trace=False)(torch.ones(2))
    print("traced")
    torch.jit.load(io.BytesIO(b"not an archive"))
except RuntimeError as error:
    print("RuntimeError")
module = torch.jit.trace_module(Cell(torch.nn.ReLU()), {"forward": (torch.ones(1, 4), torch.ones(1, 4))})
print(module(torch.ones(1, 4), torch.zeros(1, 4))[0].shape)
