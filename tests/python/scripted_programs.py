"""Functions and modules that tests compile: in a file of their own, so that their source is known."""

import enum
import math
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

from module_under_test import torch

nn = torch.nn
F = torch.nn.functional
Tensor = torch.Tensor
SCALE = 2.5


class Pair(NamedTuple):
    a: Tensor
    n: int = 3


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@torch.jit.script
class Counter:
    def __init__(self, n: int):
        self.n = n
        self.items: List[int] = []

    def add(self, k: int) -> int:
        self.items.append(k)
        self.n += k
        return self.n


def helper(x: Tensor, k: int = 2) -> Tensor:
    return x * k + SCALE


def control(x: Tensor, n: int = 3, flag: bool = True, names: Optional[List[str]] = None) -> Tuple[Tensor, int, str]:
    y = helper(x)
    out: List[Tensor] = []
    for i in range(n):
        if i == 1:
            continue
        out.append(y[i] if i < y.size(0) else y[0])
    text = f"n={n} {flag}"
    if names is not None:
        text += ",".join(names)
    table: Dict[str, int] = {}
    for key, value in enumerate([4, 5]):
        table[str(key)] = value
    z = torch.stack(out).sum(dim=0, keepdim=True)
    while z.abs().max() > 100:
        z = z / 2
    return z.to(torch.float64), sum([value for value in table.values()]) + int(math.ceil(n / 2)), text


def objects(x):
    # type: (Tensor) -> Tensor
    pair = Pair(x, 4)
    color = Color.RED
    counter = Counter(2)
    t = counter.add(3)
    if color == Color.RED:
        x = pair.a * pair.n
    if not torch.jit.is_scripting():
        x = x.clone()
    assert x.dim() == 2, "must be 2d"
    with torch.no_grad():
        w = x.sum()
    h, width = x.shape[-2:]
    x = F.pad(F.relu(x), [1, 1]) + w + t
    x[:, 0] += 1
    q = [i * 2 for i in range(3)]
    return x[..., None, 1:].transpose(1, -1) + math.sqrt(h) + q[-1] + width


def union(x, y: Union[int, float] = 1):
    if isinstance(y, int):
        return x + y
    else:
        return x - y


def containers(xs: List[Tensor], d: Dict[str, Tensor]) -> Dict[str, Tensor]:
    r = {}
    for k, v in d.items():
        if k not in ("skip", "no"):
            r[k] = v + xs[0]
    if len(xs) == 0:
        raise ValueError("empty")
    return r


def raising(x: Tensor, n: int) -> Tensor:
    if n > 2:
        raise ValueError(f"{n} is too large")
    return x * n


def trying(x):
    try:
        return x
    except ValueError:
        return x


def variable(*values):
    return values[0]


def making(x):
    f = lambda y: y + 1  # noqa: E731
    return f(x)


class Network(nn.Module):
    k: Optional[int]

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1) for _ in range(2)])
        self.layers = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.2))
        self.named = nn.ModuleDict({"x": nn.Linear(4, 5), "y": nn.GELU()})
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.down = None
        self.k = None
        self.names = ["a", "b"]
        self.flag = True
        self.register_buffer("scale_by", torch.ones(1))
        self.norm = nn.LayerNorm(5)
        self.embedding = nn.Embedding(10, 5)

    def scale(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x * by

    @torch.jit.export
    def extra(self, x: Tensor) -> Tensor:
        return self.scale(x, 3.0)

    @torch.jit.unused
    def never(self, x: Tensor) -> Tensor:
        import numpy

        return numpy.asarray(x)

    def forward(self, x: Tensor, idx: Optional[Tensor] = None) -> Tuple[Tensor, List[str]]:
        for i, convolution in enumerate(self.convolutions):
            x = convolution(x) + i
        if self.down is not None:
            x = self.down(x)
        x = self.pool(self.layers(x))
        x = x.permute(0, 2, 1, 3).flatten(2)
        x = torch.cat([x, x], dim=-1)[..., :4]
        for name, layer in self.named.items():
            x = layer(x)
        k = self.k
        if k is not None:
            x = x + k
        if idx is not None:
            x = x + self.embedding(idx).unsqueeze(1)
        if self.flag and x.size(0) > 100:
            x = self.never(x)
        return self.norm(self.scale(x)) * self.scale_by, self.names


class Derived(Network):
    def forward(self, x: Tensor, idx: Optional[Tensor] = None) -> Tuple[Tensor, List[str]]:
        y, names = super().forward(x, idx)
        return y + 1, names


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 4)
        self.rnn = nn.RNN(4, 4, nonlinearity="relu", bias=False)
        self.cells = nn.ModuleList([nn.GRUCell(4, 4), nn.RNNCell(4, 4)])
        self.cell = nn.LSTMCell(4, 4)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(x)
        z, _ = self.gru(y)
        z, last = self.rnn(z)
        a = z[0]
        for cell in self.cells:
            a = cell(a)
        b, d = self.cell(a)
        return h, c, last, b + d


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.attention = nn.MultiheadAttention(8, 4, bias=False, add_bias_kv=True, add_zero_attn=True, kdim=8, vdim=8)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        x = self.encoder(x, None, mask)
        y = self.decoder(x, x)
        z, weights = self.attention(y, y, y)
        assert weights is not None
        return z, weights
