"""Runs the tests of the CUDA back end on the machine's GPU; with no GPU it says so.

    python tests/cuda/on_gpu.py PACKAGE [SECONDS]

PACKAGE is a folder with the built package. Every file of tests runs in a process of its own, within the time that
is left; the next one runs whatever becomes of it. Then compute-sanitizer watches a sample of kernels, where it is
installed. The last line is the summary. CORTEN_ON_EMULATOR=1 runs the same parts on the emulated driver, to see that
this program works.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Seconds for one file of tests, for the operators of the registry, and for the sanitizer.
FILE, REGISTRY, SANITIZER = 60, 70, 60
TOOLS = ["memcheck", "racecheck", "initcheck"]


def run(command, seconds, environment):
    """What a command prints, and how it ended; -1 where it took too long."""
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds)
        return done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        text = late.stdout or ""
        return (text if isinstance(text, str) else text.decode(errors="replace")) + f"\nstopped after {seconds:.0f} s", -1


def tests(file, seconds, environment):
    """What a file of tests prints, and how many tests ran and did not pass."""
    command = [sys.executable, "-m", "unittest", "discover", "--quiet", "--start-directory", str(HERE), "--pattern", file]
    text, ended = run(command, seconds, environment)
    ran = re.search(r"Ran (\d+) tests?", text)
    apart = sum(int(count) for count in re.findall(r"(?:failures|errors)=(\d+)", text))
    return text, int(ran.group(1)) if ran else 0, max(apart, 0 if ended in (0, 1, 5) else 1)


def files():
    """Files of tests that run on a GPU, the operators of the registry last: the others are about the emulator."""
    on_devices = [path.name for path in sorted(HERE.glob("test_*.py")) if "cuda_under_test" in path.read_text()]
    return sorted(on_devices, key=lambda name: name == "test_operator_registry.py")


def sanitizer():
    """compute-sanitizer, or None."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = os.pathsep.join([os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)])
    return shutil.which("compute-sanitizer", path=places)


def sanitize(seconds, environment):
    """Whether compute-sanitizer finds nothing; each tool gets its share of the time."""
    program = sanitizer()
    if program is None:
        print("compute-sanitizer did not run: it is not installed")
        return 0
    failed, sample = 0, [sys.executable, str(HERE / "sanitizer_sample.py")]
    # Every tensor gets memory of its own, so that reads and writes past its end are seen.
    watched = dict(environment, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    for tool in TOOLS:
        text, ended = run([program, "--tool", tool, "--error-exitcode", "9", "--print-limit", "5", *sample], seconds / len(TOOLS), watched)
        families = len(re.findall(r"^[a-z]+$", text, re.M))
        if ended == 0:
            print(f"compute-sanitizer {tool}: {families} families of kernels, no error", flush=True)
        elif ended == -1:
            print(f"compute-sanitizer {tool}: no time was left after {families} families of kernels", flush=True)
        else:
            failed += 1
            print(f"compute-sanitizer {tool}: {text.strip()[-3000:]}", flush=True)
    return failed


def surroundings(package):
    environment = dict(os.environ, CORTEN_QUIET="1", CORTEN_TEST_SECONDS=str(REGISTRY))
    environment["PYTHONPATH"] = os.pathsep.join([str(package), str(HERE), str(HERE.parent / "python")])
    if os.environ.get("CORTEN_ON_EMULATOR") != "1":
        environment["CORTEN_TEST_GPU"] = "1"
    return environment


def main():
    package, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2] if len(sys.argv) > 2 else 240)
    environment = surroundings(package)
    asked = "import sys; sys.path.insert(0, sys.argv[1]); import corten; print(corten.cuda.is_available() and corten.cuda.get_device_name())"
    if "CORTEN_TEST_GPU" not in environment:
        asked = "import cuda_under_test; print(cuda_under_test.torch.cuda.get_device_name())"
    text, ended = run([sys.executable, "-c", asked, str(package)], 60, environment)
    name = (text.strip().splitlines() or [""])[-1]
    if ended or name in ("", "False"):
        print(f"test-cuda did not run: no usable GPU {text[-2000:]}")
        return 1
    begun, total, failed = time.monotonic(), 0, 0
    for file in files():
        left = seconds - (time.monotonic() - begun)
        if left < 5:
            print(f"{file}: no time was left")
            failed += 1
            continue
        limit = REGISTRY + 40 if file == "test_operator_registry.py" else FILE
        text, ran, apart = tests(file, min(left, limit), environment)
        total, failed = total + ran, failed + apart
        print(f"{file}: {text.strip()[-20000:] if apart else f'{ran} tests passed'}", flush=True)
        for line in re.findall(r".* were compared", "" if apart else text):
            print(f"  {line}", flush=True)
    left = seconds + SANITIZER - (time.monotonic() - begun)
    failed += sanitize(max(15.0, min(left, SANITIZER)), environment)
    print(f"test-cuda on {name}: {total} tests, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
