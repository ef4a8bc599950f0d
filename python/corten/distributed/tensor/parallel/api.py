"""A plan of styles for the modules of a model."""

from __future__ import annotations

import fnmatch
import warnings

from corten.distributed.tensor._api import _current_mesh
from corten.distributed.tensor.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Applies a style to a module, or styles to its parts by their names, in which ``*`` and ``?`` stand for parts of
    a name. The elements of parameters are those of the rank `src_data_rank` of the mesh; each rank's own where it
    is None.

    Raises:
        ValueError: The mesh has more than one dimension.
        TypeError: The plan is neither a style nor a dictionary of styles.
    """
    mesh = device_mesh or _current_mesh()
    if mesh.ndim != 1:
        raise ValueError(f"Tensor Parallel only accepts a 1D DeviceMesh, but found {mesh.ndim}D! "
                         'If you have a 2-D or N-D device_mesh, consider passing in device_mesh["tp"]')
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
                      "parallelize_module call will do nothing.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError("Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
                        f"{type(parallelize_plan)} found!")
    for path, style in parallelize_plan.items():
        matched = _matched(module, path.split("."))
        if not matched:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matches it.",
                          stacklevel=2)
        for one in matched:
            parallelize_module(one, mesh, style, src_data_rank=src_data_rank)
    return module


def _matched(module, names):
    """The parts of a module whose names match, one name after the other."""
    if not names or names == [""]:
        return [module]
    found = []
    for name, child in module.named_children():
        if fnmatch.fnmatch(name, names[0]):
            found.extend(_matched(child, names[1:]))
    return found
