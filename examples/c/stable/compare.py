"""Builds `extension.cpp` with PyTorch's headers and compares what it does in PyTorch and in Corten: `make stable-test`.

    python compare.py FOLDER: run by a Python that has PyTorch, of which TORCH_INCLUDE may name other headers. Where
    TORCHVISION_LIBRARY names torchvision's _C_stable.so, its kernels are compared with Corten's.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def main(folder):
    found = importlib.util.find_spec("torch")
    if found is None:
        sys.exit(f"{sys.executable} has no PyTorch: make stable-test PYTHON_WITH_TORCH=...")
    torch = pathlib.Path(found.origin).parent
    include = os.environ.get("TORCH_INCLUDE") or torch / "include"
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libextension.so"
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    output(compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{include}", HERE / "extension.cpp", "-o", library,
           "-Wl,--no-as-needed", f"-L{torch / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10")
    printed = {name: output(sys.executable, HERE / "extension.py", library, name) for name in ("torch", "corten")}
    if printed["torch"] != printed["corten"]:
        for name, text in printed.items():
            (folder / f"{name}.txt").write_text(text)
        sys.exit(f"PyTorch and Corten differ: {folder}/torch.txt and corten.txt")
    print(f"the extension prints the same {len(printed['torch'].splitlines())} lines in PyTorch and Corten")
    if vision := os.environ.get("TORCHVISION_LIBRARY"):
        print(output(sys.executable, HERE / "vision.py", vision), end="")


main(*sys.argv[1:])
