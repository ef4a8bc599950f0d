"""Scripted and traced modules in training: gradients, optimizers, copies, state, devices and dtypes."""

import copy
import io
from typing import Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn


class LSTMCell(nn.Module):
    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden_size, input_size) * 0.3)
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden_size, hidden_size) * 0.3)
        self.bias = nn.Parameter(torch.zeros(4 * hidden_size))

    def forward(self, x: torch.Tensor, state: Tuple[torch.Tensor, torch.Tensor]) -> Tuple[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
        hx, cx = state
        gates = torch.mm(x, self.weight_ih.t()) + torch.mm(hx, self.weight_hh.t()) + self.bias
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        cy = torch.sigmoid(forgetgate) * cx + torch.sigmoid(ingate) * torch.tanh(cellgate)
        hy = torch.sigmoid(outgate) * torch.tanh(cy)
        return hy, (hy, cy)


class Model(nn.Module):
    __constants__ = ["hidden"]

    def __init__(self, hidden: int = 6):
        super().__init__()
        self.hidden = hidden
        self.cells = nn.ModuleList([LSTMCell(3, hidden), LSTMCell(hidden, hidden)])
        self.head = nn.Linear(hidden, 1)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        for cell in self.cells:
            state = (torch.zeros(x.size(1), self.hidden), torch.zeros(x.size(1), self.hidden))
            outs = torch.jit.annotate(list[torch.Tensor], [])
            for step in x.unbind(0):
                out, state = cell(step, state)
                outs += [out]
            x = torch.stack(outs)
        return {"y": self.head(self.dropout(x[-1])).squeeze(-1), "last": x[-1]}


torch.manual_seed(0)
plain = Model()
scripted = torch.jit.script(copy.deepcopy(plain))
for name, model in (("eager", plain), ("scripted", scripted)):
    generator = torch.Generator().manual_seed(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(8):
        x = torch.randn(4, 8, 3, generator=generator)
        loss = F.mse_loss(model(x)["y"], x.mean((0, 2)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, loss.item(), sum(p.grad.abs().sum().item() for p in model.parameters()))
print(all(a.allclose(b, atol=1e-4) for a, b in zip(plain.state_dict().values(), scripted.state_dict().values())))
print(list(scripted.state_dict())[:3], scripted.hidden, len(scripted.cells))

file = io.BytesIO()
torch.jit.save(scripted, file, _extra_files={"notes.txt": "eight steps"})
file.seek(0)
extra = {"notes.txt": ""}
loaded = torch.jit.load(file, map_location="cpu", _extra_files=extra)
x = torch.ones(2, 1, 3)
print(extra, loaded(x)["y"].equal(scripted(x)["y"]), loaded.training, loaded.eval().training)
doubled = loaded.double()
try:
    print(doubled(x.double())["y"].dtype)
except RuntimeError as error:
    print("RuntimeError")
copied = copy.deepcopy(scripted)
print(copied(x)["y"].equal(scripted(x)["y"]))


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.bn = nn.BatchNorm2d(2)

    def forward(self, x):
        x = self.bn(self.conv(x))
        if self.training:
            x = F.dropout(x, 0.0, self.training)
        return F.adaptive_avg_pool2d(x.relu(), (1, 1)).flatten(1)


branch = torch.jit.script(Branch())
out = branch(torch.linspace(0, 1, 32).view(2, 1, 4, 4))
out.sum().backward()
print(branch.bn.num_batches_tracked.item(), out.shape, branch.conv.weight.grad is not None)
branch.eval()
print(torch.jit.freeze(branch)(torch.zeros(1, 1, 4, 4)).shape, [n for n, _ in branch.named_buffers()])

traced = torch.jit.trace(Branch().train(), torch.rand(2, 1, 4, 4), check_trace=False)
traced(torch.rand(2, 1, 4, 4)).sum().backward()
print([p.grad is not None for p in traced.parameters()])


def function(x, y: float = 2.0):
    return x * y if y > 1 else x


fn = torch.jit.script(function)
print(fn(torch.ones(1)).item(), fn(torch.ones(1), 0.5).item(), fn(torch.ones(1), y=3.0).item())
with torch.no_grad():
    print(fn(torch.ones(1, requires_grad=True)).requires_grad)
print(fn(torch.ones(1, requires_grad=True)).requires_grad, torch.jit.trace(lambda x: x.mul(2), torch.ones(2))(torch.ones(3)).tolist())
