"""The module that the tests run on: `corten`, or another with its interface.

`CORTEN_TEST_MODULE=torch` runs the same tests on PyTorch, to check the tests themselves.
"""

import importlib
import os

torch = importlib.import_module(os.environ.get("CORTEN_TEST_MODULE", "corten"))

# The address sanitizer keeps freed blocks for a while and takes the signals of faults for itself.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
