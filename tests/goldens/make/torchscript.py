"""Writes archives of TorchScript: ../torchscript/*.pt. Each holds, as the extra file `expected`, the arguments
of a call and what PyTorch gave."""

import enum
import io
import math
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

warnings.simplefilter("ignore")
TARGET = Path(__file__).parents[1] / "torchscript"


class Point(NamedTuple):
    place: Tensor
    weight: float


class Color(enum.Enum):
    RED = 1
    BLUE = 4


@torch.jit.interface
class Scaling:
    def scale(self, x: Tensor) -> Tensor:
        pass


@torch.jit.script
class Double:
    def __init__(self, by: float):
        self.by = by
        self.calls = 0

    def scale(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.by

    def __len__(self) -> int:
        return self.calls

    def __getitem__(self, key: int) -> int:
        return key * 2

    def __contains__(self, key: int) -> bool:
        return key == 2

    def __add__(self, other: int) -> int:
        return self.calls + other


def scalars(a: int, b: float, text: str):
    numbers = [a, -a, a // 2, -a // 2, a % 3, -a % 3, a * 2, a - 7, abs(-a), max(a, 3), min(a, 3), a << 1, a & 6, a | 1, a ^ 3]
    floats = [b, -b, b / 3, b // 0.3, b % 0.7, b ** 2, a / 2, float(a), math.sqrt(b), math.exp(b), math.floor(b) * 1.0, round(b + 0.5), b * a, math.pow(2.0, b)]
    flags = [a == 3, b < 1.0, a != 2, not a == 3, text == "x", text in ["a", text], a in [1, 2], a is None, 3 <= a]
    return numbers, floats, flags, int(b * 3), bool(a), str(a) + str(b) + str(flags), divmod(a, 2)


def strings(text: str, n: int):
    parts = text.split(" ")
    joined = "-".join(parts).upper()
    found = text.find("o"), text.startswith("he"), text.endswith("x"), text.count("l"), text.replace("l", "L")
    table = {"a": 1, "b": 2}
    table["c"] = n
    keys = [key for key in table.keys()]
    total = 0
    for key, value in table.items():
        total += value
    gone = table.pop("a")
    made = "{} of {}: {} {}".format(n, text, [n, 2], 0.5) + " %s %d" % (text, n) + text[1:3] + text[-1] + text.strip().lower()
    return joined, found, keys, total, gone, "b" in table, len(table), made, [ord(c) for c in text[:2]], table.get("z"), parts[::-1]


def lists(x: Tensor, n: int):
    made: List[Tensor] = []
    numbers = [3, 1, 2]
    numbers.append(n)
    numbers.extend([7, 8])
    numbers.insert(0, 9)
    last = numbers.pop()
    numbers.sort()
    copied = numbers[1:3]
    copied[0] = 100
    numbers.reverse()
    del numbers[0]
    for i in range(len(numbers)):
        if i == 1:
            continue
        if i > 3:
            break
        made.append(x * numbers[i])
    for one, other in zip(numbers, made):
        x = x + other * one
    for place, one in enumerate(made):
        x = x - one * place
    squares = [i * i for i in range(n)]
    pair = (x, squares)
    first, second = pair
    return first, second, numbers, last, copied, sum(squares), 100 in copied, numbers.index(2), sorted(numbers), numbers + [1] * 2, torch.stack(made)


def early(x: Tensor, n: int) -> Tensor:
    if n < 0:
        return -x
    count = 0
    while True:
        count += 1
        if count > n:
            return x * count
        for i in range(10):
            if i == count:
                break
            x = x + i
            if i > 4:
                return x
    return x


def optional(x: Optional[Tensor], y: Union[int, List[int]], z: Any = None) -> Tuple[Tensor, int]:
    if x is None:
        x = torch.ones(2)
    if isinstance(y, int):
        number = y
    else:
        number = y[0]
    if z is not None and isinstance(z, int):
        number += z
    value = x if x.sum() > 1 else None
    assert value is not None
    return value, number


def errors(x: Tensor, n: int) -> Tensor:
    if n == 0:
        raise ValueError(f"the number {n} is too small")
    if n == 1:
        raise IndexError("none")
    assert n != 2, "two"
    return x.view(n, -1)


def tensors(x: Tensor):
    y = x[1:, ::2].clone()
    y[0] = 5
    y[:, 0] += 1
    z = x[..., None, :1]
    mask = x > 0
    picked = x[mask]
    x = x.to(torch.float64).reshape(-1, 2).t().contiguous()
    made = torch.zeros(2, 3, dtype=torch.int64), torch.full([2], 1.5), torch.arange(0, 5, 2), torch.tensor([[1.0, 2.0]]), torch.ones_like(z)
    a, b = torch.max(y, dim=1)
    parts = torch.split(x, 1, dim=0)
    sizes = y.shape, y.size(0), y.dim(), y.numel(), x.dtype == torch.float64, x.device.type, x.stride()
    made_of = torch.cat([x, x], dim=1).mean(dim=-1, keepdim=True), torch.where(mask, 1.0, 0.0), torch.einsum("ij,kj->ik", y, y)
    summed = int(y.sum().item()), float(y.mean()), bool(mask.any())
    ids = torch.nonzero(mask)
    last = x.index_select(1, torch.tensor([0])).squeeze(1).softmax(-1).type_as(y)
    with torch.no_grad():
        quiet = y * 2
    values, order = y.sort(descending=True)
    return y, z, picked, x, made, a, b, parts[0], sizes, made_of, summed, ids, last, quiet, values, y.norm(), torch.linalg.norm(y), y.std(), y.flatten().unbind()[0]


class Objects(nn.Module):
    def forward(self, x: Tensor, n: int):
        point = Point(x, 0.5)
        scaling = Double(2.0)
        other: Scaling = scaling
        color = Color.BLUE if n > 1 else Color.RED
        y = other.scale(point.place) * point.weight
        future = torch.jit.fork(helper, y, n)
        result = torch.jit.wait(future)
        return result, scaling.calls, len(scaling), scaling[3], 2 in scaling, scaling + 1, color.value, color.name, color == Color.RED, point


def helper(x: Tensor, n: int) -> Tensor:
    return x + n


class Layers(nn.Module):
    limits: Dict[str, int]
    maybe: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 1, bias=False)])
        self.layers = nn.Sequential(nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(), nn.Hardswish())
        self.named = nn.ModuleDict({"first": nn.Linear(2, 3), "second": nn.GELU()})
        self.register_buffer("scale", torch.tensor([2.0]))
        self.register_buffer("extra", None)
        self.tied = self.convolutions[0]
        self.count = 3
        self.limits = {"a": 1}
        self.maybe = None
        self.words = ["x", "y"]
        self.pair = (1, 2.5)

    @torch.jit.export
    def twice(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x * by

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = convolution(x)
        x = self.layers(self.tied(x))
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = F.pad(x, [1, 1]).mean([2, 3])
        for name, layer in self.named.items():
            x = layer(x)
        if self.training:
            self.count += 1
        self.limits["b"] = x.size(0)
        return self.twice(F.layer_norm(x, [3]), 2.0) * self.scale + self.limits["b"] + self.pair[1]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 3)
        self.cell = nn.LSTMCell(3, 2)
        self.embedding = nn.Embedding(7, 3, padding_idx=0)
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x: Tensor):
        x = self.embedding(x)
        y, (h, c) = self.lstm(x)
        z, _ = self.gru(y)
        a, b = self.cell(z[0])
        attended, weights = self.attention(y[..., :4], y[..., 4:], y[..., :4])
        return y, h, c, z, a, b, attended, weights


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.ones(2)
        self.times = 2

    @torch.jit.export
    def __getstate__(self):
        return self.weight * 2, self.times, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, int, bool]):
        self.weight = state[0] / 2
        self.times = state[1] + 1
        self.training = state[2]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.times


class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("offset", torch.arange(4.0))

    def forward(self, x, y):
        x = self.linear(x) + torch.tensor([0.5, 1.0, 1.5, 2.0])
        n = x.shape[0]
        return {"sum": (x + self.offset).view(n * 2, -1), "parts": torch.cat(torch.split(y, 1), dim=-1), "max": x.max(1)[0]}


def save(name, module, *arguments):
    """Writes an archive with what a call gave."""
    if not isinstance(module, torch.jit.ScriptModule) and not isinstance(module, torch.jit.ScriptFunction):
        module = torch.jit.script(module.eval() if isinstance(module, nn.Module) else module)
    results = []
    for given in arguments:
        try:
            results.append(plain(module(*given)))
        except Exception as error:
            results.append(("raises", type(error).__name__, str(error).strip().rsplit("\n", 1)[-1]))
    buffer = io.BytesIO()
    torch.save([list(map(list, arguments)), results], buffer)
    TARGET.mkdir(exist_ok=True)
    torch.jit.save(module, str(TARGET / f"{name}.pt"), _extra_files={"expected": buffer.getvalue()})


def plain(value):
    """A result without classes of this file."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def main():
    """Writes all files."""
    torch.manual_seed(0)
    save("scalars", scalars, (3, 0.75, "x"), (8, 2.5, "héllo"))
    save("strings", strings, ("hello wórld", 4))
    save("lists", lists, (torch.arange(3.0), 4))
    save("early", early, (torch.ones(2), -1), (torch.ones(2), 3), (torch.ones(2), 9))
    save("optional", optional, (None, 3, None), (torch.ones(3), [4, 5], 2), (torch.zeros(1), 1, None))
    save("errors", errors, (torch.arange(6.0), 0), (torch.arange(6.0), 1), (torch.arange(6.0), 2), (torch.arange(6.0), 3), (torch.arange(6.0), 4))
    save("tensors", tensors, (torch.randn(4, 6),))
    save("objects", Objects(), (torch.ones(2), 1), (torch.ones(2), 2))
    save("layers", Layers(), (torch.randn(2, 2, 6, 6),))
    save("recurrent", Recurrent(), (torch.tensor([[1, 2, 3], [4, 0, 6]]),))
    save("stateful", Stateful(), ())
    module = Traced().eval()
    traced = torch.jit.trace(module, (torch.randn(2, 4), torch.randn(3, 2)), strict=False)
    save("traced", traced, (torch.randn(3, 4), torch.randn(3, 2)))
    save("frozen", torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU()).eval())), (torch.randn(1, 1, 3, 3),))


if __name__ == "__main__":
    main()
