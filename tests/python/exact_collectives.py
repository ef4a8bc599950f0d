"""Every collective of every dtype between processes, compared with what one process computes.

    python exact_collectives.py [BACKENDS] [RANKS] [SIZES]

BACKENDS are `gloo,mpi`, RANKS `2,4`, SIZES numbers of elements, as `0,1,17,10000000`. Numbers are small, so that
every result is exact in every dtype, and repeat themselves after a prime number of elements, so that expected
results cost one copy and no piece can stand in for another. Sums of random numbers must have the same bits on all
ranks. Above a million elements every third pair of a reduction and a collective is run: each collective, and each
reduction, with every dtype. Prints what was checked; the exit code is 1 if anything differs or takes too long.
tests/python/test_distributed_{gloo,mpi}.py run it with small sizes.
"""

import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float32", "float64", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "complex32",
    "complex64", "complex128",
]
#: Elements after which what ranks give begins anew.
PERIOD = 4093
#: Elements above which every third reduction of a collective is run.
LARGE = 1_000_000
#: Seconds that one number of ranks and elements may take.
LIMIT = 1800
OPERATIONS = ["SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR", "PREMUL_SUM"]


def mpiexec():
    """The launcher beside this Python, or that of PATH; nothing where there is none."""
    beside = Path(sys.prefix) / "bin" / "mpiexec"
    return os.environ.get("CORTEN_TEST_MPIEXEC") or (str(beside) if beside.exists() else shutil.which("mpiexec"))


def under_mpiexec(size):
    """The command that starts a program on so many ranks, also where there are fewer processors."""
    version = subprocess.run([mpiexec(), "--version"], capture_output=True, text=True).stdout
    options = ["--oversubscribe", "--allow-run-as-root"] if "Open" in version else []
    return [mpiexec(), *options, "-n", str(size)]


def end_launcher(process):
    """Ends a launcher or a rank. One that is killed at once leaves files in /tmp."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Ranks:
    """What one rank checks."""

    def __init__(self, torch, dist):
        self.torch, self.dist, self.checked, self.periods = torch, dist, 0, {}
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def whole(self, count, salt, dtype):
        """Integers of 0 to 3 that belong to a rank, or to what is sent from one to another; for floats of 8 bits of
        0 and 1, whose sums they hold. No more than the period."""
        values = 2 if dtype.itemsize == 1 and dtype.is_floating_point else 4
        key = min(count, PERIOD), salt, values
        if key not in self.periods:
            index = self.torch.arange(key[0]) + 1
            mixed = index * 2654435761 + (index * index + 77) * (salt + 1) * 40503
            self.periods[key] = (mixed >> 9) % values
        return self.periods[key]

    def spread(self, period, count):
        """So many elements of a period."""
        return period.repeat(-(-count // PERIOD))[:count] if count > PERIOD else period

    def tensor(self, integers, dtype):
        torch = self.torch
        if dtype.is_complex:
            parts = torch.stack([integers, (integers + 1) % 4], -1)
            halves = {torch.complex32: torch.float16, torch.complex64: torch.float32}
            return torch.view_as_complex(parts.to(halves.get(dtype, torch.float64)).contiguous())
        return (integers > 1) if dtype == torch.bool else integers.to(dtype, copy=True)

    def mine(self, count, dtype, salt=None):
        salt = self.rank if salt is None else salt
        return self.spread(self.tensor(self.whole(count, salt, dtype), dtype), count)

    def same(self, found, expected, what):
        """The same bytes."""
        def raw(tensor):
            tensor = self.torch.view_as_real(tensor) if tensor.is_complex() else tensor
            return tensor.contiguous().view(-1).view(self.torch.uint8)

        self.checked += 1
        if found.dtype != expected.dtype or not self.torch.equal(raw(found), raw(expected)):
            which = f"{what} of {expected.numel()} x {expected.dtype}"
            raise SystemExit(f"rank {self.rank} of {self.size}: {which} differs")

    def empty(self, count, dtype):
        return self.torch.zeros(count, dtype=self.torch.uint8).to(dtype)

    def movements(self, count, dtype):
        for call in (self.broadcast, self.all_gather, self.all_gather_into_tensor, self.gather, self.scatter,
                     self.all_to_all, self.all_to_all_single, self.send):
            call(count, dtype)

    def blanks(self, count, dtype):
        return [self.empty(count, dtype) for _ in range(self.size)]

    def broadcast(self, count, dtype):
        x = self.mine(count, dtype)
        self.dist.broadcast(x, self.size - 1)
        self.same(x, self.mine(count, dtype, self.size - 1), "broadcast")

    def all_gather(self, count, dtype):
        outputs = self.blanks(count, dtype)
        self.dist.all_gather(outputs, self.mine(count, dtype))
        for other, output in enumerate(outputs):
            self.same(output, self.mine(count, dtype, other), "all_gather")

    def all_gather_into_tensor(self, count, dtype):
        whole = self.empty(count * self.size, dtype)
        self.dist.all_gather_into_tensor(whole, self.mine(count, dtype))
        for other in range(self.size):
            part = whole[other * count:(other + 1) * count]
            self.same(part, self.mine(count, dtype, other), "all_gather_into_tensor")

    def gather(self, count, dtype):
        last = self.size - 1
        outputs = self.blanks(count, dtype) if self.rank == last else None
        self.dist.gather(self.mine(count, dtype), outputs, last)
        for other, output in enumerate(outputs or []):
            self.same(output, self.mine(count, dtype, other), "gather")

    def scatter(self, count, dtype):
        x, everybody = self.empty(count, dtype), range(self.size)
        given = [self.mine(count, dtype, 10 + other) for other in everybody] if self.rank == 0 else None
        self.dist.scatter(x, given, 0)
        self.same(x, self.mine(count, dtype, 10 + self.rank), "scatter")

    def all_to_all(self, count, dtype):
        size, rank = self.size, self.rank
        outputs = self.blanks(count, dtype)
        self.dist.all_to_all(outputs, [self.mine(count, dtype, size * rank + other) for other in range(size)])
        for other, output in enumerate(outputs):
            self.same(output, self.mine(count, dtype, size * other + rank), "all_to_all")

    def all_to_all_single(self, count, dtype):
        size, rank = self.size, self.rank
        rows = [count + other for other in range(size)]
        given = self.torch.cat([self.mine(each, dtype, size * rank + other) for other, each in enumerate(rows)])
        output = self.empty((count + rank) * size, dtype)
        self.dist.all_to_all_single(output, given, [count + rank] * size, rows)
        for other, part in enumerate(output.split(count + rank) if count + rank else []):
            self.same(part, self.mine(count + rank, dtype, size * other + rank), "all_to_all_single")

    def send(self, count, dtype):
        dist, size, rank = self.dist, self.size, self.rank
        x = self.empty(count, dtype)
        works = [dist.isend(self.mine(count, dtype), (rank + 1) % size), dist.irecv(x, (rank - 1) % size)]
        for work in works:
            work.wait()
        self.same(x, self.mine(count, dtype, (rank - 1) % size), "send")

    def expected(self, count, dtype, name, salts):
        """The reduction of the operands with these salts."""
        return self.spread(self.reduced(count, dtype, name, salts), count)

    def reduced(self, count, dtype, name, salts):
        """The same, no more than the period."""
        torch = self.torch
        operands = [self.whole(count, salt, dtype) for salt in salts]
        if dtype == torch.bool:
            operands = [(operand > 1).long() for operand in operands]
        elif dtype.is_complex:
            operands = [torch.stack([each, (each + 1) % 4], -1).view(-1) for each in operands]
        fold = {
            "SUM": torch.add, "AVG": torch.add, "PREMUL_SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum,
            "MAX": torch.maximum, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
        }[name]
        total = operands[0]
        for operand in operands[1:]:
            total = fold(total, operand)
        if dtype == torch.bool:
            return total > 0
        if name == "AVG":
            is_float = dtype.is_floating_point or dtype.is_complex
            total = total.double() / len(salts) if is_float else total // len(salts)
        if name == "PREMUL_SUM":
            total = total * 2
        if dtype.is_complex:
            part = {torch.complex32: torch.float16, torch.complex64: torch.float32}.get(dtype, torch.float64)
            return torch.view_as_complex(total.view(-1, 2).to(part).contiguous())
        return total.to(dtype)

    def exists(self, name, dtype):
        is_float = dtype.is_floating_point or dtype.is_complex
        if name in ("BAND", "BOR", "BXOR"):
            return not is_float
        if name in ("MIN", "MAX", "PRODUCT"):
            return not dtype.is_complex
        if name == "PREMUL_SUM":
            return is_float
        return name != "AVG" or dtype != self.torch.bool

    def reductions(self, count, dtype):
        dist = self.dist
        given = [name for name in OPERATIONS if self.exists(name, dtype)]
        for name in OPERATIONS:
            op = dist._make_nccl_premul_sum(2.0) if name == "PREMUL_SUM" else getattr(dist.ReduceOp, name)
            if name in given:
                calls = [self.all_reduce, self.reduce, self.reduce_scatter, self.reduce_scatter_tensor]
                turn = given.index(name) + DTYPES.index(str(dtype).partition(".")[2])
                for place, call in enumerate(calls):
                    if count <= LARGE or (place + turn) % 3 == 0:
                        call(count, dtype, name, op)
                continue
            try:
                dist.all_reduce(self.mine(count, dtype), op)
            except (RuntimeError, ValueError):
                continue
            raise SystemExit(f"{name} of {dtype} is not refused")

    def all_reduce(self, count, dtype, name, op):
        x = self.mine(count, dtype)
        self.dist.all_reduce(x, op)
        self.same(x, self.expected(count, dtype, name, range(self.size)), f"all_reduce {name}")

    def reduce(self, count, dtype, name, op):
        x = self.mine(count, dtype)
        self.dist.reduce(x, self.size - 1, op)
        if self.rank == self.size - 1:
            self.same(x, self.expected(count, dtype, name, range(self.size)), f"reduce {name}")

    def reduce_scatter(self, count, dtype, name, op):
        x, everybody = self.empty(count, dtype), range(self.size)
        self.dist.reduce_scatter(x, [self.mine(count, dtype, self.rank + 5 * other) for other in everybody], op)
        expected = self.expected(count, dtype, name, [other + 5 * self.rank for other in everybody])
        self.same(x, expected, f"reduce_scatter {name}")

    def reduce_scatter_tensor(self, count, dtype, name, op):
        x, everybody = self.empty(count, dtype), range(self.size)
        given = self.torch.cat([self.mine(count, dtype, self.rank + 5 * other) for other in everybody])
        self.dist.reduce_scatter_tensor(x, given, op)
        expected = self.expected(count, dtype, name, [other + 5 * self.rank for other in everybody])
        self.same(x, expected, f"reduce_scatter_tensor {name}")

    def agreement(self, count, dtype):
        """Sums that are rounded: near the exact ones, with the same bits on all ranks."""
        torch, dist = self.torch, self.dist
        operands = []
        for rank in range(self.size):
            torch.manual_seed(rank)
            operands.append(torch.randn(count).to(dtype))
        x = operands[self.rank].clone()
        dist.all_reduce(x)
        first = x.clone()
        dist.broadcast(first, 0)
        self.same(x, first, "rounded all_reduce")
        exact = sum(operand.double() for operand in operands)
        bound = sum(operand.double().abs() for operand in operands) * torch.finfo(dtype).eps * self.size
        if not bool(((x.double() - exact).abs() <= bound).all()):
            raise SystemExit(f"all_reduce of {count} x {dtype} is far from the exact sums")

    def run(self, sizes):
        for count in sizes:
            for name in DTYPES:
                dtype = getattr(self.torch, name)
                self.movements(count, dtype)
                self.reductions(count, dtype)
            for name in ("float16", "bfloat16", "float32", "float64"):
                self.agreement(count, getattr(self.torch, name))
        self.dist.barrier()


def one_rank(backend, rank, size, store, sizes):
    import corten as torch
    import corten.distributed as dist

    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=300)
    if backend == "mpi":
        dist.init_process_group("mpi", timeout=timeout)
    else:
        dist.init_process_group(
            backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=timeout)
    ranks = Ranks(torch, dist)
    ranks.run(sizes)
    if ranks.rank == 0:
        print(ranks.checked, flush=True)
    dist.destroy_process_group()


def run(backend, size, sizes, limit=None):
    """How many comparisons rank 0 made on so many ranks; raises RuntimeError where one fails."""
    sizes = ",".join(map(str, sizes))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__), "rank", backend]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if backend == "mpi":
            environment["PATH"] = f"{os.path.dirname(mpiexec())}:{os.environ.get('PATH', '')}"
            starts = [[*under_mpiexec(size), *command, "0", str(size), "-", sizes]]
        else:
            starts = [[*command, str(rank), str(size), f"{folder}/store", sizes] for rank in range(size)]
        processes = [
            subprocess.Popen(start, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=environment, start_new_session=True) for start in starts
        ]
        try:
            outputs = [process.communicate(timeout=limit) for process in processes]
        finally:
            for process in processes:
                end_launcher(process)
        for process, (output, errors) in zip(processes, outputs, strict=True):
            if process.returncode != 0:
                raise RuntimeError(f"{backend} on {size} ranks: {output}{errors}")
        return int(outputs[0][0].split()[0])


def main(backends="gloo,mpi", ranks="2,4", sizes="0,1,17,100003"):
    wrong = 0
    for backend in backends.split(","):
        for size in map(int, ranks.split(",")):
            for count in map(int, sizes.split(",")):
                begun, which = time.monotonic(), f"{backend}, {size} ranks, {count} elements"
                try:
                    checked = run(backend, size, [count], LIMIT)
                    print(f"{which}: {checked} results of rank 0 are right, and all of the others, "
                          f"{time.monotonic() - begun:.1f} s", flush=True)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    wrong += 1
                    print(f"{which}: {error}", flush=True)
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        backend, rank, size, store, sizes = sys.argv[2:]
        one_rank(backend, int(rank), int(size), store, [int(each) for each in sizes.split(",")])
    else:
        sys.exit(main(*sys.argv[1:]) > 0)
