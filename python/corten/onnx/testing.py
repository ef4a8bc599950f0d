"""Tests of exported models."""

from __future__ import annotations

__all__ = ["assert_onnx_program"]


def assert_onnx_program(program, *, rtol=None, atol=None, args=None, kwargs=None, strategy=None, backend="onnxruntime"):
    """Checks that a model gives what the program gives that it was made of.

    Args:
        program: What ``torch.onnx.export`` gave.
        rtol: The relative difference that is allowed.
        atol: The absolute difference that is allowed.
        args: Positional inputs; those of the export without them.
        kwargs: Inputs by name.
        strategy: Not used: there is one way to capture programs.
        backend: What runs the model: ``"onnxruntime"`` or ``"reference"``.

    Raises:
        AssertionError: A result differs in type, shape or value.
    """
    import corten
    from corten.utils._pytree import tree_leaves

    exported = program.exported_program
    if exported is None:
        raise ValueError("the model has no exported program to compare it with")
    if backend not in ("onnxruntime", "reference"):
        raise ValueError(f"backend must be 'onnxruntime' or 'reference', not {backend!r}")
    if args is None and kwargs is None:
        args, kwargs = exported.example_inputs
    args, kwargs = args or (), kwargs or {}
    expected = [leaf for leaf in tree_leaves(exported.module()(*args, **kwargs)) if leaf is not None]
    run = program if backend == "onnxruntime" else program.call_reference
    for one, other in zip(run(*args, **kwargs), expected, strict=True):
        other = other.detach() if isinstance(other, corten.Tensor) else corten.tensor(other)
        corten.testing.assert_close(one, other, rtol=rtol, atol=atol, equal_nan=True)
