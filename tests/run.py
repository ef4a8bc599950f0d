"""Runs the Python tests, every file in a process of its own, one more at once than there are processors, as some wait.

Names of files run only these; CORTEN_TEST_FOLDERS names the folders instead of all, CORTEN_TEST_WITHOUT patterns of
names that are left out. A file that takes longer than ten minutes is ended and has failed.
"""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parent
FOLDERS = os.environ.get("CORTEN_TEST_FOLDERS", "python semantics regression cuda").split()
WITHOUT = os.environ.get("CORTEN_TEST_WITHOUT", "").split()
#: Seconds that a file may take.
LIMIT = 600


def files(names):
    """Those named, or all, the longest texts first: what takes long should not begin last."""
    found = [file for folder in FOLDERS for file in (TESTS / folder).glob("test_*.py")
             if (not names or file.name in names) and not any(map(file.match, WITHOUT))]
    return sorted(found, key=lambda file: file.stat().st_size, reverse=True)


def run(file):
    """What the tests of a file print, and whether they passed."""
    command = [sys.executable, "-m", "unittest", "discover", "--quiet",
               "--start-directory", str(file.parent), "--pattern", file.name]
    begin = time.monotonic()
    # A group of its own, so that what it started ends with it.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:
        try:
            text, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text = f"{process.communicate()[0]}\nended after {LIMIT} seconds"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return file, f"{text.strip()} ({time.monotonic() - begin:.0f} s)", process.returncode == 0


def main():
    failed = []
    # The word of a build for tests is not part of what programs print.
    os.environ.setdefault("CORTEN_QUIET", "1")
    # Default generators start alike in each run.
    os.environ.setdefault("CORTEN_SEED", "67280421310721")
    # Helpers such as module_under_test are beside the tests of the package.
    paths = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(TESTS / "python")]
    # Absolute ones: tests start programs in other folders.
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)
    with ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        for file, text, passed in pool.map(run, files(sys.argv[1:])):
            print(f"{file.parent.name}/{file.name}: {text}", flush=True)
            if not passed:
                failed.append(f"{file.parent.name}/{file.name}")
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")


if __name__ == "__main__":
    main()
