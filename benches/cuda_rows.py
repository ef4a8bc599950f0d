"""What `benches/cuda.py` times: a row is a name, how much it moves or computes, and a function that makes a call ready.

Every function takes the library, `corten` or `torch`. CORTEN_BENCH_DIVISOR makes sizes smaller by that factor, to see on
a slow device, or on the emulated one, that the rows work.
"""

import os

DIVISOR = int(os.environ.get("CORTEN_BENCH_DIVISOR", "1"))
LARGE = max(16, 100_000_000 // DIVISOR)
ROWS = {}


def side(size, divisor=DIVISOR):
    """A side of a matrix whose area is divided."""
    return max(8, int(size / divisor**0.5) // 8 * 8)


def row(name, traffic=0, flops=0):
    """Declares a row; `traffic` is in bytes."""
    def declare(make):
        ROWS[name] = make, traffic, flops
        return make

    return declare


def elementwise(name, traffic, call, dtype="float32", inputs=1):
    """A row over 1e8 elements; `call` takes the library, inputs and a result of the same size."""
    def make(torch):
        tensors = [torch.rand(LARGE, device="cuda").to(getattr(torch, dtype)) for _ in range(inputs)]
        out = torch.empty_like(tensors[0])
        return lambda: call(torch, *tensors, out)

    row(f"{name} 1e8", traffic * LARGE)(make)


elementwise("copy", 8, lambda torch, x, out: out.copy_(x))
elementwise("add", 12, lambda torch, x, y, out: torch.add(x, y, out=out), inputs=2)
elementwise("mul number", 8, lambda torch, x, out: torch.mul(x, 1.5, out=out))
elementwise("exp", 8, lambda torch, x, out: torch.exp(x, out=out))
elementwise("gelu", 8, lambda torch, x, out: torch.nn.functional.gelu(x))
elementwise("where", 12, lambda torch, x, y, out: torch.where(x > 0.5, x, y), inputs=2)
elementwise("addcmul", 16, lambda torch, x, y, z, out: torch.addcmul(x, y, z, out=out), inputs=3)
elementwise("add bf16", 6, lambda torch, x, y, out: torch.add(x, y, out=out), "bfloat16", inputs=2)
elementwise("float to half", 6, lambda torch, x, out: x.half())
elementwise("sum", 4, lambda torch, x, out: x.sum())
elementwise("mean bf16", 2, lambda torch, x, out: x.mean(), "bfloat16")
elementwise("amax", 4, lambda torch, x, out: x.amax())
elementwise("var", 4, lambda torch, x, out: x.var())
elementwise("argmax", 4, lambda torch, x, out: x.argmax())
elementwise("norm", 4, lambda torch, x, out: x.norm())


def by_rows(name, traffic, call):
    sides = side(10_000)
    row(f"{name} 10000x10000", traffic * sides * sides)(
        lambda torch: (lambda x: lambda: call(torch, x))(torch.rand(sides, sides, device="cuda")))


by_rows("sum of rows", 4, lambda torch, x: x.sum(1))
by_rows("sum of columns", 4, lambda torch, x: x.sum(0))
by_rows("transposed copy", 8, lambda torch, x: x.t().contiguous())
by_rows("broadcast add", 8, lambda torch, x: x + x[0])
by_rows("cumsum", 8, lambda torch, x: x.cumsum(1))


def compiled(name, traffic, call, sizes, inputs=1):
    """A row of a compiled function of tensors of the same sizes; `traffic` is in bytes per element."""
    def make(torch):
        function = torch.compile(lambda *tensors: call(torch, *tensors), fullgraph=True)
        tensors = [torch.rand(sizes, device="cuda") for _ in range(inputs)]
        return lambda: function(*tensors)

    elements = 1
    for size in sizes:
        elements *= size
    row(f"compiled {name}", traffic * elements)(make)


def gelu_written_out(torch, x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def rmsnorm_written_out(torch, x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def softmax_written_out(torch, x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def ten_operators(torch, x):
    for _ in range(5):
        x = (x + 1) * 0.5
    return x


ROW_SIDES = (side(16384), side(2048))
compiled("(x*g+b)*.5+x 1e8", 16, lambda torch, x, g, b: (x * g + b) * 0.5 + x, (LARGE,), inputs=3)
compiled("gelu written out 1e8", 8, gelu_written_out, (LARGE,))
compiled("silu(x)*g 1e8", 12, lambda torch, x, g: torch.nn.functional.silu(x) * g, (LARGE,), inputs=2)
compiled("rmsnorm written out", 12, rmsnorm_written_out, ROW_SIDES, inputs=2)
compiled("softmax written out", 8, softmax_written_out, ROW_SIDES)
compiled("x+gelu(layer_norm(x))", 8, lambda torch, x: x + torch.nn.functional.gelu(
    torch.nn.functional.layer_norm(x, x.shape[-1:])), ROW_SIDES)
compiled("ten operators 1K", 0, ten_operators, (1024,))


def with_backward(name, sizes, call, dtype="float32", leaves=1, flops=0):
    def make(torch):
        given = [torch.randn(sizes, device="cuda").to(getattr(torch, dtype)).requires_grad_() for _ in range(leaves)]
        seed = torch.ones_like(call(torch, *given))
        return lambda: torch.autograd.grad(call(torch, *given), given, seed)

    row(f"{name} forward and backward", flops=flops)(make)


with_backward("softmax", (side(8192), side(8192)), lambda torch, x: torch.softmax(x, 1))
with_backward("log_softmax 50304", (max(2, 2048 // DIVISOR), 50304 if DIVISOR == 1 else 64), lambda torch, x: torch.log_softmax(x, 1))
with_backward("layer_norm", (side(8192), side(4096)), lambda torch, x: torch.nn.functional.layer_norm(x, x.shape[-1:]))
HEADS = (8, 16, 1024, 64) if DIVISOR == 1 else (1, 2, 32, 16)
for dtype_of_attention in ("bfloat16", "float32"):
    with_backward(f"attention {dtype_of_attention}", HEADS, lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True), dtype_of_attention, 3)


def product(name, dtype, size, tf32=False, batch=()):
    size = side(size, DIVISOR)

    def make(torch):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x = torch.rand(*batch, size, size, device="cuda").to(getattr(torch, dtype))
        return lambda: x @ x

    flops = 2 * size**3
    for count in batch:
        flops *= count
    row(f"matmul {name}", flops=flops)(make)


product("4096 f32", "float32", 4096)
product("4096 tf32", "float32", 4096, tf32=True)
product("4096 bf16", "bfloat16", 4096)
product("4096 f16", "float16", 4096)
product("64 x 512 bf16", "bfloat16", 512, batch=(max(2, 64 // DIVISOR),))
product("256 f32", "float32", 256)


def chain(torch):
    x = torch.rand(1, device="cuda")

    def call():
        y = x
        for _ in range(50):
            y = y * 1.5
        return y

    return call


@row("chain of 50 small operators")
def chain_eager(torch):
    return chain(torch)


@row("chain of 50 small operators in a graph")
def chain_in_graph(torch):
    call, graph = chain(torch), torch.cuda.CUDAGraph()
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


@row("1000 allocations")
def allocations(torch):
    sizes = [2 ** (i * 7 % 19) + i for i in range(1000)]

    def call():
        kept = [None] * 16
        for place, size in enumerate(sizes):
            kept[place % 16] = torch.empty(size, device="cuda")

    return call


def transfer(name, pinned, to_device):
    size = max(16, 64_000_000 // DIVISOR)

    def make(torch):
        host, device = torch.rand(size), torch.empty(size, device="cuda")
        host = host.pin_memory() if pinned else host
        first, second = (device, host) if to_device else (host, device)
        return lambda: first.copy_(second, non_blocking=True)

    row(f"{name} 256 MB", 4 * size)(make)


transfer("pinned to device", True, True)
transfer("pageable to device", False, True)
transfer("device to pinned", True, False)


def selection(name, size, call):
    """A row over a vector of random numbers and one of random positions in it."""
    size = max(64, size // DIVISOR)

    def make(torch):
        x, index = torch.rand(size, device="cuda"), torch.randint(0, size, (size,), device="cuda")
        return lambda: call(torch, x, index)

    row(name)(make)


selection("sort 1e7", 10_000_000, lambda torch, x, index: x.sort())
selection("topk 100 of 1e6", 1_000_000, lambda torch, x, index: x.topk(min(100, x.numel() // 2)))
selection("unique 1e6", 1_000_000, lambda torch, x, index: index.unique())
selection("index 1e7", 10_000_000, lambda torch, x, index: x[index])
selection("gather 1e7", 10_000_000, lambda torch, x, index: x.gather(0, index))
selection("scatter_add 1e7", 10_000_000, lambda torch, x, index: torch.zeros_like(x).scatter_add_(0, index, x))
selection("masked select 1e7", 10_000_000, lambda torch, x, index: x[x > 0.5])
selection("rand 1e7", 10_000_000, lambda torch, x, index: torch.rand_like(x))


@row("embedding 50000x256 forward and backward")
def embedding(torch):
    table = torch.nn.Embedding(max(16, 50_000 // DIVISOR), 256).cuda()
    words = torch.randint(0, table.num_embeddings, (max(8, 16_384 // DIVISOR),), device="cuda")
    return lambda: table(words).sum().backward()


def matrices(name, call, *sizes):
    def make(torch):
        x = torch.rand(*sizes, device="cuda")
        x = x @ x.mT + 8 * torch.eye(sizes[-1], device="cuda")
        return lambda: call(torch, x)

    row(name)(make)


row("rfft of rows 4096x4096")(lambda torch: (lambda x: lambda: torch.fft.rfft(x))(torch.rand(side(4096), side(4096), device="cuda")))
matrices("cholesky 2048", lambda torch, x: torch.linalg.cholesky(x), side(2048), side(2048))
matrices("cholesky of 512 x 64", lambda torch, x: torch.linalg.cholesky(x), max(2, 512 // DIVISOR), side(64), side(64))
matrices("solve 1024", lambda torch, x: torch.linalg.solve(x, x), side(1024), side(1024))


def optimizer(name, **options):
    def make(torch):
        weights = [torch.nn.Parameter(torch.rand(max(8, 100_000 // DIVISOR), device="cuda")) for _ in range(max(4, 100 // DIVISOR))]
        for weight in weights:
            weight.grad = torch.rand_like(weight)
        return torch.optim.Adam(weights, 1e-3, **options).step

    row(f"Adam {name}, 100 weights of 1e5")(make)


optimizer("fused", fused=True)
optimizer("foreach", foreach=True)


@row("clip_grad_norm_, 100 weights of 1e5")
def clip(torch):
    weights = [torch.nn.Parameter(torch.rand(max(8, 100_000 // DIVISOR), device="cuda")) for _ in range(max(4, 100 // DIVISOR))]
    for weight in weights:
        weight.grad = torch.rand_like(weight)
    return lambda: torch.nn.utils.clip_grad_norm_(weights, 1.0)


def training(torch, model, make_loss, optimizer=None):
    """A training step of a network."""
    model = model.cuda()
    steps = (optimizer or torch.optim.SGD)(model.parameters(), 1e-3)

    def step():
        steps.zero_grad()
        make_loss(model).backward()
        steps.step()

    return step


def gpt(torch, width, heads, layers, dtype=None):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.first(x)).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    model = nn.Sequential(nn.Embedding(1000, width), *[Layer() for _ in range(layers)], nn.Linear(width, 1000))
    batch, length = (8, 256) if DIVISOR == 1 else (2, 16)
    text = torch.randint(0, 1000, (batch, length), device="cuda")

    def make_loss(model):
        if dtype is None:
            return nn.functional.cross_entropy(model(text).view(-1, 1000), text.view(-1))
        with torch.autocast("cuda", getattr(torch, dtype)):
            return nn.functional.cross_entropy(model(text).view(-1, 1000), text.view(-1))

    return training(torch, model, make_loss, torch.optim.AdamW)


@row("GPT step f32")
def gpt_float(torch):
    return gpt(torch, *((512, 8, 6) if DIVISOR == 1 else (32, 2, 1)))


@row("GPT step autocast bf16")
def gpt_autocast(torch):
    return gpt(torch, *((512, 8, 6) if DIVISOR == 1 else (32, 2, 1)), dtype="bfloat16")


@row("small GPT step f32")
def gpt_small(torch):
    return gpt(torch, *((128, 4, 2) if DIVISOR == 1 else (16, 2, 1)))


@row("MLP step")
def mlp(torch):
    nn, width = torch.nn, side(1024)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    x, y = torch.randn(256, width, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    return training(torch, model, lambda model: nn.functional.cross_entropy(model(x), y))


@row("LSTM step")
def lstm(torch):
    length, width = (64, 256) if DIVISOR == 1 else (4, 8)
    model, x = torch.nn.LSTM(width, width, num_layers=2), torch.randn(length, 32, width, device="cuda")
    return training(torch, model, lambda model: model(x)[0].square().mean())


@row("residual CNN step")
def residual(torch):
    nn = torch.nn
    width, images = (64, (32, 3, 64, 64)) if DIVISOR == 1 else (8, (1, 3, 8, 8))

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = [nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2)]
            self.norm, self.last = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

        def forward(self, x):
            y = self.second(torch.relu(self.norm(self.first(x))))
            return torch.relu(x + self.last(y))

    model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), Residual(), nn.MaxPool2d(2), Residual(), Residual(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    x, y = torch.randn(images, device="cuda"), torch.randint(0, 10, images[:1], device="cuda")
    return training(torch, model, lambda model: nn.functional.cross_entropy(model(x), y))
