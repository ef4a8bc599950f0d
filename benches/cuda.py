"""Times the package on the machine's GPU beside PyTorch, where that is installed: ratios of medians from one run.

    python benches/cuda.py PACKAGE [SECONDS]

A ratio above 1 says that Corten takes less time. Both libraries run in turn, in one process each. The last line is
the summary; a row that fails says why, and the next one runs.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROWS = ["copy 1e8", "add 1e8", "gelu 1e8", "sum 1e8", "softmax 8192x8192", "chain of 50 small", "matmul 4096 f32",
        "matmul 4096 bf16", "pinned copy 256MB", "pageable copy 256MB", "mlp step", "gpt step"]


def gpt(torch, device):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.first, self.second, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(1000, 256), nn.Linear(256, 1000)
            self.blocks = nn.Sequential(*[Block(256, 8) for _ in range(4)])

        def forward(self, x):
            return self.head(self.blocks(self.embedding(x)))

    model, text = Gpt().to(device), torch.randint(0, 1000, (8, 128), device=device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(text).view(-1, 1000), text.view(-1)).backward()
        optimizer.step()

    return step


def mlp(torch, device):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    x, y = torch.randn(256, 512, device=device), torch.randint(0, 10, (256,), device=device)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def work(torch, row):
    """What a row does once."""
    device, size = "cuda", 100_000_000
    if row in ("copy 1e8", "add 1e8", "gelu 1e8", "sum 1e8"):
        x = torch.rand(size, device=device)
        y = torch.empty_like(x)
        return {"copy": lambda: y.copy_(x), "add": lambda: torch.add(x, x, out=y),
                "gelu": lambda: torch.nn.functional.gelu(x), "sum": lambda: x.sum()}[row.split()[0]]
    if row.startswith("softmax"):
        x = torch.rand(8192, 8192, device=device)
        return lambda: torch.softmax(x, 1)
    if row.startswith("chain"):
        x = torch.rand(1, device=device)

        def chain():
            y = x
            for _ in range(50):
                y = y * 1.5
            return y

        return chain
    if row.startswith("matmul"):
        x = torch.rand(4096, 4096, device=device, dtype=torch.bfloat16 if "bf16" in row else torch.float32)
        return lambda: x @ x
    if row.startswith(("pinned", "pageable")):
        x = torch.rand(64_000_000)
        x = x.pin_memory() if row.startswith("pinned") else x
        y = torch.empty(64_000_000, device=device)
        return lambda: y.copy_(x, non_blocking=True)
    return {"mlp step": mlp, "gpt step": gpt}[row](torch, device)


def measure(torch, row):
    """Milliseconds of a call, the median of several."""
    function = work(torch, row)
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(5):
            function()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / 5 * 1e3)
    return statistics.median(times)


def serve(name):
    """Measures the rows that are asked for, one per line."""
    torch = __import__(name)
    for line in sys.stdin:
        try:
            answer = measure(torch, line.strip())
        except Exception as error:  # noqa: BLE001
            answer = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(answer), flush=True)


def start(name, package):
    environment = dict(os.environ, CORTEN_QUIET="1")
    if name == "corten":
        environment["PYTHONPATH"] = str(package)
    return subprocess.Popen([sys.executable, __file__, "--serve", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env=environment)


def ask(process, row):
    process.stdin.write(row + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    return json.loads(line) if line else "the process ended"


def main():
    package, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2] if len(sys.argv) > 2 else 180)
    begun, ratios = time.monotonic(), []
    ours = start("corten", package)
    theirs = start("torch", package)
    for row in ROWS:
        if time.monotonic() - begun > seconds:
            print(f"{row}: no time was left")
            continue
        first, second = ask(ours, row), ask(theirs, row)
        if isinstance(first, float) and isinstance(second, float):
            ratios.append(second / first)
            print(f"{row}: {first:.3f} ms, PyTorch {second:.3f} ms, ratio {second / first:.2f}", flush=True)
        else:
            print(f"{row}: Corten {first}, PyTorch {second}", flush=True)
    for process in (ours, theirs):
        process.kill()
    mean = statistics.geometric_mean(ratios) if ratios else float("nan")
    print(f"bench-cuda: {len(ratios)} of {len(ROWS)} rows, geometric mean {mean:.2f}, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
