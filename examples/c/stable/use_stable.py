"""The libraries of this folder, used from Python: python use_stable.py FOLDER."""

import pathlib
import subprocess
import sys

import corten as torch
from corten import _C

folder = pathlib.Path(sys.argv[1])
# The symbols on record are those that there are, and every one is found by extensions.
recorded = (pathlib.Path(__file__).parent.parent.parent.parent / "crates/corten-c/stable.txt").read_text().split()
assert list(_C._stable_abi_symbols()) == recorded, sorted(set(_C._stable_abi_symbols()) ^ set(recorded))

torch.ops.load_library(folder / "libstable_operators.so")
ops = torch.ops.stable_c
line = ops.check()
assert line == 0, f"operators.c:{line}"
assert torch.cuda.is_available() or ops.refuses_devices()
x = torch.arange(4, dtype=torch.float32)
assert ops.twice(x).tolist() == [0, 2, 4, 6]
assert ops.generator_device(torch.Generator()) == 0
for call, text in ((lambda: ops.nothing(x), "null"), (lambda: ops.twice(x.to("meta")), "stable_c::twice")):
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)

for _ in range(2):
    try:
        torch.ops.load_library(folder / "libstable_broken.so")
    except RuntimeError as error:
        assert "schema" in str(error) or "expected" in str(error), error
    else:
        raise AssertionError("a library that cannot register its operator was loaded")
try:
    torch.ops.load_library(folder / "libstable_unknown.so")
except OSError as error:
    assert "_ZN3c106Tensor6methodEv" in str(error) and "C++ interface" in str(error), error
else:
    raise AssertionError("a library of PyTorch's C++ interface was loaded")

thrower = folder / "libstable_throws.so"
if thrower.exists():
    torch.ops.load_library(thrower)
    throws = torch.ops.stable_throws.throws
    expected = [(RuntimeError, "a runtime error"), (IndexError, "an index"), (ValueError, "a value"),
                (torch.OutOfMemoryError, "bad_alloc"), (RuntimeError, "type i"), (RuntimeError, "Strange"),
                (RuntimeError, "thrown again"), (RuntimeError, "in a thread")]
    for how, (kind, text) in enumerate(expected):
        try:
            throws(how)
        except kind as error:
            assert text in str(error), (how, error)
        else:
            raise AssertionError(how)
    assert throws(8) == 42 and throws(9) == 0

# Modules that something else loads find the libraries too, once these are provided.
code = "import ctypes, sys; from corten import _C; _C._provide_stable_abi(); ctypes.CDLL(sys.argv[1])"
subprocess.run([sys.executable, "-c", code, str(folder / "libstable_operators.so")], check=True)
