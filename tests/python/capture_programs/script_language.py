"""The language of TorchScript: types, loops, containers, strings, exceptions, classes, tasks."""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor


@torch.jit.script
def fib(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@torch.jit.script
def collatz(n: int) -> List[int]:
    found = [n]
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        found.append(n)
    return found


@torch.jit.script
def words(texts: List[str]) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for text in texts:
        for word in text.lower().split(" "):
            counts[word] = counts.get(word, 0) + 1
    return counts


class Point(NamedTuple):
    x: Tensor
    y: int


@torch.jit.script
def make_point(x: Tensor, y: Optional[int] = None) -> Point:
    if y is None:
        y = x.numel()
    return Point(x * 2, y)


@torch.jit.script
def swap(pair: Tuple[int, str], times: int) -> Tuple[str, int]:
    number, text = pair
    assert times > 0, "times must be positive"
    return "{}-{}".format(text, times), number * times


@torch.jit.script
class Stack(object):
    def __init__(self, limit: int):
        self.items: List[float] = []
        self.limit = limit

    def push(self, x: float) -> bool:
        if len(self.items) >= self.limit:
            return False
        self.items.append(x)
        return True

    def total(self) -> float:
        s = 0.0
        for item in self.items:
            s += item
        return s


@torch.jit.script
def use_stack(n: int) -> float:
    stack = Stack(3)
    i = 0
    while stack.push(float(i) + 0.5):
        i += 1
        if i > n:
            break
    return stack.total()


@torch.jit.script
def indexing(x: Tensor, i: int) -> Tensor:
    y = x.clone()
    y[0] = 5
    y[..., -1] += 1
    return torch.cat([y[i:], y[:i], x[:, None][:, 0]], dim=0)


def square(x: Tensor) -> Tensor:
    return x * x


@torch.jit.script
def parallel(x: Tensor) -> Tensor:
    futures: List[torch.jit.Future[Tensor]] = []
    for i in range(3):
        futures.append(torch.jit.fork(square, x + i))
    results: List[Tensor] = []
    for future in futures:
        results.append(torch.jit.wait(future))
    return torch.stack(results)


@torch.jit.script
def comprehension(n: int, names: List[str]):
    squares = [i * i for i in range(n)]
    pairs = [(i, name) for i, name in enumerate(names)]
    both = [a + len(b) for a, b in zip(squares, names)]
    return squares, pairs, both, sorted(both), max(squares), "x".join(names)


@torch.jit.script
def refine(x: Optional[Tensor], like: Tensor) -> Tensor:
    if x is not None and x.dim() > 0:
        like = like + x
    if isinstance(x, Tensor):
        like = like * 2
    return like


print(fib(30), collatz(6), words(["A b a", "b a"]))
print(make_point(torch.ones(2)), make_point(torch.ones(1), 7).y, swap((2, "t"), 3))
print(use_stack(10), use_stack(1), indexing(torch.arange(6.0).view(3, 2), 1).tolist())
print(parallel(torch.ones(2)).tolist(), comprehension(3, ["a", "bc", "d"]))
print(refine(None, torch.ones(1)), refine(torch.ones(1), torch.ones(1)))
for call in (lambda: swap((1, "a"), 0), lambda: fib("three"), lambda: fib(1, 2)):
    try:
        call()
    except Exception as error:
        print(isinstance(error, (RuntimeError, torch.jit.Error)), "fib() expected at most 1" in str(error), "must be positive" in str(error))
print(fib.schema)
annotated = torch.jit.annotate(List[int], [])
print(annotated, torch.jit.isinstance([1, 2], List[int]), torch.jit.is_scripting(), torch.jit.is_tracing())
