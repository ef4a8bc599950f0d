"""Results of exported models beside those of the modules that they were made of."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VerificationInfo", "verify_onnx_program"]


@dataclass
class VerificationInfo:
    """How far a result of the exported model is from that of the module."""

    name: str
    max_abs_diff: float
    max_rel_diff: float
    expected_dtype: object
    actual_dtype: object


def verify_onnx_program(onnx_program, args=None, kwargs=None, compare_intermediates=False):
    """Runs a model in ONNX Runtime and the program that it was made of, and compares the results.

    Args:
        onnx_program: What ``torch.onnx.export`` gave.
        args: Positional inputs; those of the export without them.
        kwargs: Inputs by name.
        compare_intermediates: Not supported: results alone are compared.

    Returns:
        A :class:`VerificationInfo` for each result.
    """
    from corten.utils._pytree import tree_leaves

    program = onnx_program.exported_program
    if program is None:
        raise ValueError("the model has no exported program to compare it with")
    if compare_intermediates:
        raise NotImplementedError("only results can be compared: compare_intermediates must be False")
    if args is None:
        args, kwargs = program.example_inputs
    expected = [leaf for leaf in tree_leaves(program.module()(*args, **(kwargs or {}))) if leaf is not None]
    actual = onnx_program(*args, **(kwargs or {}))
    names = [value.name for value in onnx_program.model.graph.outputs]
    return [_compare(*row) for row in zip(names, expected, actual)]


def _compare(name, expected, actual):
    import corten

    expected = expected if isinstance(expected, corten.Tensor) else corten.tensor(expected)
    difference = (expected.detach().double() - actual.double()).abs()
    relative = difference / expected.detach().double().abs().clamp(min=1e-7)
    largest = [float(part.max()) if part.numel() else 0.0 for part in (difference, relative)]
    return VerificationInfo(name, *largest, expected.dtype, actual.dtype)
