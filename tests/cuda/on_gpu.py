"""Runs the tests of the CUDA back end on the machine's GPU; with no GPU it says so.

    python tests/cuda/on_gpu.py PACKAGE [SECONDS]

PACKAGE is a folder with the built package. Every file of tests runs in a process of its own, within the time that
is left; the next one runs whatever becomes of it. The last line is the summary.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The emulator is what these files are about.
APART = {"test_emulator.py"}


def run(file, seconds, environment):
    """What a file of tests prints, and how many tests ran and did not pass."""
    command = [sys.executable, "-m", "unittest", "discover", "--quiet", "--start-directory", str(HERE), "--pattern", file]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds)
        text, ended = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        text, ended = (late.stdout or b"").decode(errors="replace") + f"\nstopped after {seconds:.0f} s", -1
    ran = re.search(r"Ran (\d+) tests?", text)
    apart = sum(int(count) for count in re.findall(r"(?:failures|errors)=(\d+)", text))
    return text, int(ran.group(1)) if ran else 0, max(apart, ended not in (0, 1), 0 if ended == 0 else 1)


def main():
    package, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2] if len(sys.argv) > 2 else 240)
    environment = dict(os.environ, CORTEN_TEST_GPU="1", CORTEN_QUIET="1")
    environment["PYTHONPATH"] = os.pathsep.join([str(package), str(HERE), str(HERE.parent / "python")])
    asked = "import corten; print(corten.cuda.is_available() and corten.cuda.get_device_name())"
    card = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True)
    name = card.stdout.strip()
    if card.returncode or name in ("", "False"):
        print(f"test-cuda did not run: no usable GPU {card.stderr[-2000:]}")
        return 1
    begun, total, failed = time.monotonic(), 0, 0
    for file in sorted(path.name for path in HERE.glob("test_*.py") if path.name not in APART):
        left = seconds - (time.monotonic() - begun)
        if left < 5:
            print(f"{file}: no time was left")
            failed += 1
            continue
        text, ran, apart = run(file, left, environment)
        total, failed = total + ran, failed + apart
        print(f"{file}: {text.strip() if apart else f'{ran} tests passed'}", flush=True)
    print(f"test-cuda on {name}: {total} tests, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
