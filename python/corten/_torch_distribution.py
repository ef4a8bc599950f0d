"""The command ``corten as-torch``: a package ``torch`` in an environment, which is this package.

Packages look for PyTorch in many ways: ``import torch``, ``importlib.util.find_spec``, the metadata of
installed distributions, new processes, programs of their own. All find a distribution of this name
whose modules are those of this package.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.metadata
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from corten._as_torch import TORCH_VERSION

_MARK = "corten"
_INFO = f"torch-{TORCH_VERSION}.dist-info"

_TORCH = '''"""PyTorch's name for the package corten."""

import sys

try:
    from corten._as_torch import install_as_torch
except ModuleNotFoundError as error:
    if error.name != "corten":
        raise
    sys.path.append({home!r})
    from corten._as_torch import install_as_torch

install_as_torch(instead_of=sys.modules[__name__])
'''

_FUNCTORCH = '''"""The transforms of functions, under the name of the package that PyTorch had them in."""

from torch.func import *  # noqa: F403
from torch.func import functional_call, stack_module_state, vmap  # noqa: F401
from torch import __version__  # noqa: F401

_LAZY = {
    "FunctionalModule": "make_functional", "FunctionalModuleWithBuffers": "make_functional",
    "combine_state_for_ensemble": "deprecated", "make_functional": "deprecated",
    "make_functional_with_buffers": "deprecated",
}


def __getattr__(name):
    import importlib

    if name == "make_fx":
        return importlib.import_module("torch.fx.experimental.proxy_tensor").make_fx
    if name in _LAZY:
        return getattr(importlib.import_module(f"torch._functorch.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
'''

_FUNCTORCH_COMPILE = '''"""Both passes of functions as graphs, by the library that stands for PyTorch here."""

from torch._functorch.compile import *  # noqa: F403
'''

_METADATA = """\
Metadata-Version: 2.1
Name: torch
Version: {version}
Summary: Corten {corten} under PyTorch's name: its semantics are those of PyTorch {version}
{requires}
This is not PyTorch. The modules of this distribution are those of the package corten; the command
"corten as-torch remove" takes it away.
"""


def _files(home):
    """Path and content of everything in the distribution but its record."""
    import corten

    ours = str(corten._C.__version__)
    try:
        importlib.metadata.version("corten")
        requires = "Requires-Dist: corten\n"
    except importlib.metadata.PackageNotFoundError:
        requires = ""
    metadata = _METADATA.format(version=TORCH_VERSION, corten=ours, requires=requires)
    return {
        "torch/__init__.py": _TORCH.format(home=home),
        "functorch/__init__.py": _FUNCTORCH,
        "functorch/compile/__init__.py": _FUNCTORCH_COMPILE,
        f"{_INFO}/METADATA": metadata,
        f"{_INFO}/INSTALLER": _MARK + "\n",
        f"{_INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: corten\nRoot-Is-Purelib: true\n"
                          "Tag: py3-none-any\n",
        f"{_INFO}/top_level.txt": "functorch\ntorch\n",
    }


class Unwritten(importlib.metadata.Distribution):
    """The distribution in a process where no environment has it."""

    def __init__(self):
        self._home = Path(__file__).resolve().parent.parent
        self._texts = _files(str(self._home))

    def read_text(self, filename):
        return self._texts.get(f"{_INFO}/{filename}")

    def locate_file(self, path):
        return self._home / path


class _Functorch:
    """Executes the package of transforms, which no environment has."""

    def __init__(self, text):
        self.text = text

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.text, f"<{module.__name__}>", "exec"), module.__dict__)


_FUNCTORCH_MODULES = {"functorch": _FUNCTORCH, "functorch.compile": _FUNCTORCH_COMPILE}


def spec_of_functorch(name):
    """Where ``functorch``, or a module of it, comes from in such a process; None where there is none."""
    text = _FUNCTORCH_MODULES.get(name)
    if text is None:
        return None
    return importlib.machinery.ModuleSpec(name, _Functorch(text), origin="corten", is_package=True)


def _record(files):
    """The record of files that installers keep (PEP 376)."""
    lines = []
    for name, text in files.items():
        digest = hashlib.sha256(text.encode()).digest()
        code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        lines.append(f"{name},sha256={code},{len(text.encode())}")
    return "\n".join([*lines, f"{_INFO}/RECORD,,"]) + "\n"


def _parts():
    """The folders of the distribution; the one that makes it complete is last."""
    return ("torch", "functorch", _INFO)


def _is_mark(folder):
    try:
        return (folder / "INSTALLER").read_text().strip() == _MARK
    except OSError:
        return False


def _others(site):
    """What lies in an environment under these names and is not of this command."""
    infos = [path for path in (*site.glob("torch-*.dist-info"), *site.glob("torch-*.egg-info"))]
    foreign = [path for path in infos if not _is_mark(path)]
    if any(_is_mark(path) for path in infos):
        return foreign
    return [*foreign, *(site / name for name in ("torch", "functorch") if (site / name).exists())]


def _site(target):
    site = Path(target) if target else Path(sysconfig.get_paths()["purelib"])
    if not site.is_dir():
        sys.exit(f"corten as-torch: {site} is not a folder")
    return site


def install(target=None):
    """Writes the distribution into the site-packages of this Python, or into ``target``.

    Raises:
        SystemExit: PyTorch itself, or something else of its name, is there.
    """
    import corten

    site = _site(target)
    others = _others(site)
    if others:
        names = ", ".join(str(path) for path in others)
        sys.exit(f"corten as-torch: PyTorch is installed there; uninstall it first: {names}")
    files = _files(str(Path(corten.__file__).resolve().parent.parent))
    files[f"{_INFO}/RECORD"] = _record(files)
    fresh = Path(tempfile.mkdtemp(prefix=".corten-as-torch-", dir=site))
    done = []
    try:
        for name, text in files.items():
            (fresh / name).parent.mkdir(exist_ok=True)
            (fresh / name).write_text(text)
        _remove_parts(site)
        for part in _parts():
            os.rename(fresh / part, site / part)
            done.append(part)
    except BaseException:
        for part in done:
            shutil.rmtree(site / part, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    print(f"{site / 'torch'}: import torch gives corten, as PyTorch {TORCH_VERSION}")


def _remove_parts(site):
    """Removes the parts that are there, the one that makes the distribution complete first."""
    infos = [path for path in site.glob("torch-*.dist-info") if _is_mark(path)]
    if infos:
        for path in (*infos, site / "torch", site / "functorch"):
            if path.exists():
                shutil.rmtree(path)
    return bool(infos)


def remove(target=None):
    """Removes what :func:`install` wrote."""
    site = _site(target)
    if _remove_parts(site):
        print(f"{site}: removed")
    else:
        sys.exit(f"corten as-torch: it is not installed in {site}")


def status(target=None):
    """Prints what ``import torch`` finds in the environment."""
    site = _site(target)
    others = _others(site)
    if others:
        print(f"{site}: PyTorch itself ({', '.join(path.name for path in others)})")
    elif any(_is_mark(path) for path in site.glob("torch-*.dist-info")):
        print(f"{site}: corten, as PyTorch {TORCH_VERSION}")
    else:
        print(f"{site}: nothing of this name")


def main(arguments):
    """``corten as-torch install|remove|status [--target FOLDER]``."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="corten as-torch",
        description="Makes this package the distribution torch of a Python environment.",
    )
    parser.add_argument("action", choices=["install", "remove", "status"])
    parser.add_argument(
        "--target", help="a site-packages folder (default: that of the Python that runs this)"
    )
    chosen = parser.parse_args(arguments)
    {"install": install, "remove": remove, "status": status}[chosen.action](chosen.target)
