"""Times the package on the machine's GPU beside PyTorch, where that is installed: ratios of medians from one run.

    python benches/cuda.py PACKAGE [SECONDS] [WORDS]

A ratio above 1 says that Corten takes less time. Rows that move much memory are also compared with the bandwidth of the
copy that the same run measured. Both libraries run in turn, in one process each; a row that fails or hangs says so, and
the next one runs. WORDS, with commas between, choose the rows whose names contain one. The last line is the summary.
"""

import json
import os
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cuda_rows import ROWS

# Seconds that a library may take for a row.
PATIENCE = 25


def measure(torch, name):
    """Milliseconds of a call: the median of five samples of some 40 ms."""
    function = ROWS[name][0](torch)
    function()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    function()
    torch.cuda.synchronize()
    calls = int(min(max(0.04 / max(time.perf_counter() - begun, 1e-6), 1), 2000))
    times = []
    for _ in range(5 if calls > 1 else 2):
        begun = time.perf_counter()
        for _ in range(calls):
            function()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / calls * 1e3)
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
        torch.cuda.empty_cache()


class Library:
    """A process with one of the libraries, started again after a row that it did not survive."""

    def __init__(self, name, package):
        self.name, self.process, self.absent = name, None, None
        self.environment = dict(os.environ, CORTEN_QUIET="1")
        if name == "corten":
            self.environment["PYTHONPATH"] = str(package)
        check = f"import {name} as t; assert t.cuda.is_available(), 'no usable GPU'; print(t.__version__, t.cuda.get_device_name())"
        done = subprocess.run([sys.executable, "-c", check], env=self.environment, capture_output=True, text=True)
        self.title = f"{name} {done.stdout.strip()}"
        if done.returncode:
            self.absent = (done.stderr.strip().splitlines() or ["it ended"])[-1]

    def ask(self, row):
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, __file__, "--serve", self.name], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True, env=self.environment)
        try:
            self.process.stdin.write(row + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.stop("the process ended")
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            return self.stop(f"no answer within {PATIENCE} s")
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.stop("the process ended")

    def stop(self, why=""):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        return why


def describe(row, ours, theirs, copy):
    """A line of the table, and the ratio where both have a time."""
    _, traffic, flops = ROWS[row]
    if not isinstance(ours, float):
        return f"{row:45} Corten: {ours}", None
    text = f"{row:45} {ours:10.4f} ms"
    if traffic and "256 MB" not in row and copy:
        text += f"  {100 * traffic / ours / copy:4.0f} % of the copy"
    if "256 MB" in row:
        text += f"  {traffic / ours / 1e6:5.1f} GB/s"
    if flops:
        text += f"  {flops / ours / 1e9:6.1f} TFLOP/s"
    if not isinstance(theirs, float):
        return text + (f"  PyTorch: {theirs}" if theirs else ""), None
    return f"{text}  PyTorch {theirs:10.4f} ms  ratio {theirs / ours:5.2f}", theirs / ours


def main():
    package, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2] if len(sys.argv) > 2 else 210)
    words = sys.argv[3].split(",") if len(sys.argv) > 3 else [""]
    begun, ratios, measured, copy = time.monotonic(), {}, 0, 0.0
    ours, theirs = Library("corten", package), Library("torch", package)
    print(f"{ours.title} beside {theirs.title if theirs.absent is None else f'nothing: {theirs.absent}'}", flush=True)
    if ours.absent:
        print(f"bench-cuda did not run: {ours.absent}")
        return 1
    rows = [row for row in ROWS if any(word in row for word in words)]
    for row in rows:
        if time.monotonic() - begun > seconds:
            print(f"{row:45} no time was left")
            continue
        first, second = ours.ask(row), theirs.ask(row) if theirs.absent is None else ""
        measured += isinstance(first, float)
        if row == "copy 1e8":
            copy = max(ROWS[row][1] / time for time in (first, second) if isinstance(time, float))
            print(f"the copy moves {copy / 1e6:.0f} GB/s")
        text, ratio = describe(row, first, second, copy)
        print(text, flush=True)
        if ratio is not None:
            ratios[row] = ratio
    ours.stop()
    theirs.stop()
    slower = [row for row, ratio in sorted(ratios.items(), key=lambda item: item[1]) if ratio < 1]
    if slower:
        print("slower than PyTorch: " + ", ".join(f"{row} ({ratios[row]:.2f})" for row in slower))
    mean = f"{statistics.geometric_mean(ratios.values()):.2f}" if ratios else "unknown"
    print(f"bench-cuda on {ours.title}: {measured} of {len(rows)} rows, geometric mean of {len(ratios)} ratios {mean}, "
          f"{time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main())
