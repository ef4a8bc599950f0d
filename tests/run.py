"""Runs the Python tests, every file in a process of its own, as many at once as there are processors.

Names of files run only these; CORTEN_TEST_FOLDERS names the folders instead of all.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parent
FOLDERS = os.environ.get("CORTEN_TEST_FOLDERS", "python semantics regression cuda").split()


def files(names):
    """Those named, or all, the longest texts first: what takes long should not begin last."""
    found = [file for folder in FOLDERS for file in (TESTS / folder).glob("test_*.py")
             if not names or file.name in names]
    return sorted(found, key=lambda file: file.stat().st_size, reverse=True)


def run(file):
    """What the tests of a file print, and whether they passed."""
    command = [sys.executable, "-m", "unittest", "discover", "--quiet",
               "--start-directory", str(file.parent), "--pattern", file.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return file, done.stdout, done.returncode == 0


def main():
    failed = []
    # The word of a build for tests is not part of what programs print.
    os.environ.setdefault("CORTEN_QUIET", "1")
    # Helpers such as module_under_test are beside the tests of the package.
    paths = [os.environ.get("PYTHONPATH"), str(TESTS / "python")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, text, passed in pool.map(run, files(sys.argv[1:])):
            print(f"{file.parent.name}/{file.name}: {text.strip()}", flush=True)
            if not passed:
                failed.append(f"{file.parent.name}/{file.name}")
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")


if __name__ == "__main__":
    main()
