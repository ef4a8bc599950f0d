"""Compiles and runs the examples in C: `make c-test`.

    python run.py FOLDER PROGRAM: the folder has `lib` and `include`, the program is `use_operators` of corten-c.
"""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CRATE = HERE.parent.parent / "crates/corten-c"
FLAGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{CRATE / 'include'}"]


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def check_symbols(library):
    """The library exports what is on record, and nothing else of that name."""
    lines = (CRATE / "abi.txt").read_text().splitlines()
    recorded = {line.partition("(")[0].rpartition(" ")[2].lstrip("*") for line in lines if "(" in line}
    loaded = ctypes.CDLL(str(library))
    missing = sorted(name for name in recorded if not hasattr(loaded, name))
    if missing:
        sys.exit(f"{library} lacks {', '.join(missing)}")
    if nm := shutil.which("nm"):
        listed = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True)
        exported = {line.split()[-1] for line in listed.stdout.splitlines() if line.strip()}
        if unknown := sorted(exported - recorded):
            sys.exit(f"{library} exports {', '.join(unknown)}, which abi.txt has not")


def main(folder, program):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        print("c-test did not run: there is no C compiler")
        return
    home = pathlib.Path(folder).resolve()
    libraries = home / "lib"
    check_symbols(libraries / "libcorten.so")

    run(compiler, *FLAGS, HERE / "perceptron.c", f"-L{libraries}", "-lcorten", "-lm", f"-Wl,-rpath,{libraries}",
        "-o", home / "perceptron")
    for extension in "pt", "safetensors":
        run(home / "perceptron", home / f"perceptron.{extension}")

    run(compiler, *FLAGS[:-1], f"-I{home / 'include'}", HERE / "typed.c", f"-L{libraries}", "-lcorten",
        f"-Wl,-rpath,{libraries}", "-o", home / "typed")
    run(home / "typed")

    operators = home / "liboperators.so"
    run(compiler, *FLAGS, "-shared", "-fPIC", HERE / "operators.c", "-lm", "-o", operators)
    run(pathlib.Path(program).resolve(), operators)
    run(sys.executable, HERE / "use_operators.py", operators)
    stable(compiler, home)
    nim(home, libraries)


def stable(compiler, home):
    """Libraries of PyTorch's stable C ABI, linked as extensions are: to libraries of PyTorch by name."""
    source, folder = HERE / "stable", home / "stable"
    folder.mkdir(exist_ok=True)
    (folder / "none.c").write_text("")
    (folder / "unknown.c").write_text("void _ZN3c106Tensor6methodEv(void);\n"
                                      "void call(void) { _ZN3c106Tensor6methodEv(); }\n")
    names = "torch", "torch_cpu", "c10"
    for name in names:
        run(compiler, "-shared", "-fPIC", folder / "none.c", f"-Wl,-soname,lib{name}.so", "-o",
            folder / f"lib{name}.so")
    linked = ["-shared", "-fPIC", f"-L{folder}", "-Wl,--no-as-needed", *(f"-l{name}" for name in names)]
    flags = [flag for flag in FLAGS if not flag.startswith("-I")]
    run(compiler, *flags, source / "operators.c", *linked, "-o", folder / "libstable_operators.so")
    run(compiler, *flags, source / "broken.c", *linked, "-o", folder / "libstable_broken.so")
    run(compiler, "-O1", folder / "unknown.c", *linked, "-o", folder / "libstable_unknown.so")
    thrower = folder / "libstable_throws.so"
    thrower.unlink(missing_ok=True)
    if cpp := os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++"):
        run(cpp, "-std=c++17", "-O1", "-Wall", "-Wextra", source / "throws.cpp", *linked, "-o", thrower)
    else:
        print("exceptions of kernels were not tested: there is no C++ compiler")
    for name in names:
        (folder / f"lib{name}.so").unlink()
    run(sys.executable, source / "use_stable.py", folder)


def nim(home, libraries):
    """Makes the bindings for Nim and trains with them."""
    compiler = shutil.which("nim")
    if compiler is None:
        print("the bindings for Nim were not tested: there is no Nim compiler")
        return
    source, folder = HERE.parent / "nim", home / "nim"
    folder.mkdir(exist_ok=True)
    listed = subprocess.run([sys.executable, "-m", "corten.ops", "--json"], stdout=subprocess.PIPE, check=True)
    (folder / "ops.json").write_bytes(listed.stdout)
    with open(folder / "corten.nim", "w") as bindings:
        subprocess.run([sys.executable, source / "bindings.py", folder / "ops.json"], stdout=bindings, check=True)
    run(compiler, "c", "--mm:arc", "--hints:off", f"--path:{folder}", f"--nimcache:{folder / 'cache'}",
        f"--passC:-I{CRATE / 'include'}", f"--passL:-L{libraries} -Wl,-rpath,{libraries}",
        f"--out:{folder / 'perceptron'}", source / "perceptron.nim")
    run(folder / "perceptron")


main(*sys.argv[1:])
