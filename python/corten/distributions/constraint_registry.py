"""Transforms from unconstrained numbers to constrained sets."""

from __future__ import annotations

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Finds a transform for a constraint, by the constraint's class."""

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Sets the function that makes the transform for a class of constraints.

        Raises:
            TypeError: ``constraint`` is neither a class of constraints nor an instance of one.
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


#: Bijections, so that densities can be transformed.
biject_to = ConstraintRegistry()
#: Transforms that may lose information, good for optimising parameters.
transform_to = ConstraintRegistry()


def _for_both(*kinds):
    def register(factory):
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_for_both(constraints.real)
def _real(constraint):
    return transforms.identity_transform


@_for_both(constraints.greater_than, constraints.greater_than_eq)
def _above(constraint):
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    return transforms.ComposeTransform(parts)


@_for_both(constraints.less_than)
def _below(constraint):
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    return transforms.ComposeTransform(parts)


@_for_both(constraints.interval, constraints.half_open_interval)
def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    parts = [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    return transforms.ComposeTransform(parts)


@_for_both(constraints.corr_cholesky)
def _correlation(constraint):
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.independent)
def _biject_to_independent(constraint):
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _transform_to_independent(constraint):
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@biject_to.register(constraints.simplex)
def _biject_to_simplex(constraint):
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_to_simplex(constraint):
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint):
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _positive_definite(constraint):
    return transforms.PositiveDefiniteTransform()


def _register_parts(registry):
    def of_cat(constraint):
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def of_stack(constraint):
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.cat, of_cat)
    registry.register(constraints.stack, of_stack)


_register_parts(biject_to)
_register_parts(transform_to)
