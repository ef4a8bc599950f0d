"""Names that programs find in ``torch.nn.functional`` beside its functions."""

from __future__ import annotations

from corten import Tensor
from corten.overrides import (
    handle_torch_function, has_torch_function, has_torch_function_unary,
    has_torch_function_variadic,
)

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3",
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "TYPE_CHECKING", "Tensor",
    "boolean_dispatch", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "reproducibility_notes", "sparse_support_notes", "tf32_notes",
]

#: As of `typing`, which is not worth its import.
TYPE_CHECKING = False

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


class _BroadcastingList:
    """For annotations: a number, or several."""

    def __getitem__(self, types):
        return None


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()

#: Paragraphs for the documentation of functions.
reproducibility_notes = {
    "forward_reproducibility_note": "The same input gives the same output here.",
    "backward_reproducibility_note": "The same input gives the same gradient here.",
    "cudnn_reproducibility_note": "The same input gives the same output here.",
}
sparse_support_notes = {"sparse_beta_warning": ""}
tf32_notes = {"tf32_note": "Products are computed in full precision."}


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls one of two others, as its boolean argument says."""

    def dispatch(*args, **kwargs):
        flag = default
        if arg_name in kwargs:
            flag = kwargs[arg_name]
        elif arg_index < len(args):
            flag = args[arg_index]
        return (if_true if flag else if_false)(*args, **kwargs)

    dispatch.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        dispatch.__module__ = module_name
    if func_name is not None:
        dispatch.__name__ = func_name
    return dispatch
