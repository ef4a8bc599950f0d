"""Programs as graphs that stand for themselves: a module, its state, and the conditions under which it holds.

:func:`export` runs a module once with tensors that stand for its inputs, and records the operators that it calls.
"""

from __future__ import annotations

from corten.export.decomp_utils import CustomDecompTable
from corten.export.dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from corten.export.exported_program import (
    ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions,
)
from corten.export.graph_signature import ExportBackwardSignature, ExportGraphSignature
from corten.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry",
    "ModuleCallSignature", "ShapesCollection", "default_decompositions", "dims", "draft_export", "export", "load",
    "UnflattenedModule", "register_dataclass", "save", "unflatten",
]

_DRAFT = (
    "The error above occurred when calling torch.export.export. If you would like to view some more information "
    "about this error, and get a list of all other errors that may occur in your export call, you can replace your "
    "`export()` call with `draft_export()`."
)


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
           prefer_deferred_runtime_asserts_over_guards=False):
    """The program of a module: the operators that it calls with such inputs.

    Args:
        mod: A module.
        args: Positional inputs, as a tuple.
        kwargs: Named inputs.
        dynamic_shapes: Which sizes of the inputs are not fixed: by name of the argument, or in their order.
        strict: The same graph is made either way.
        preserve_module_call_signature: Names of modules below whose calls :func:`unflatten` shall keep.

    Raises:
        ValueError: ``mod`` is no module, or an input is of a class that is no tree.
        UserError: ``args`` is no tuple, or the sizes cannot be as ``dynamic_shapes`` says.
    """
    import corten
    from corten._dynamo.exc import UserError
    from corten.export._trace import _export

    if not isinstance(mod, corten.nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if isinstance(mod, corten.jit.ScriptModule):
        raise ValueError(
            "Exporting a ScriptModule is not supported. Maybe try converting your ScriptModule to an ExportedProgram "
            "using `TS2EPConverter(mod, args, kwargs).convert()` instead."
        )
    try:
        return _export(
            mod, args, kwargs, dynamic_shapes, strict=strict,
            preserve_module_call_signature=tuple(preserve_module_call_signature),
        )
    except UserError as error:
        error.args = (f"{error}\n\n{_DRAFT}",)
        raise


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    """The program of a module, as :func:`export` gives it."""
    return export(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
    )


def register_dataclass(cls, *, serialized_type_name=None):
    """Lets instances of a dataclass be inputs and results of programs."""
    from corten.utils._pytree import register_dataclass as register

    register(cls, serialized_type_name=serialized_type_name)


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program to a file, in PyTorch's ``.pt2`` format.

    Args:
        ep: The program.
        f: A path, or a file that is open for writing bytes.
        extra_files: More records: texts by name.

    Raises:
        TypeError: ``ep`` is no program.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    from corten.export.pt2_archive._package import package_pt2

    package_pt2(
        f, exported_programs={"model": ep}, extra_files=extra_files, pickle_protocol=pickle_protocol,
        opset_version=opset_version,
    )


def load(f, *, extra_files=None, expected_opset_version=None):
    """The program of a ``.pt2`` file. Nothing of the file is executed.

    Args:
        f: A path, or a file that is open for reading bytes.
        extra_files: A dictionary that gets the further records.

    Raises:
        RuntimeError: It is no such file, or the program in it is damaged.
        NotImplementedError: The program was compiled ahead of time.
    """
    from corten.export.pt2_archive._package import load_pt2

    found = load_pt2(f, expected_opset_version=expected_opset_version)
    if extra_files is not None:
        extra_files.update(found.extra_files)
    if "model" not in found.exported_programs:
        raise RuntimeError("the archive has no program named 'model'")
    return found.exported_programs["model"]
