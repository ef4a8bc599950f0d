"""Several passes in an order that fits constraints."""

from __future__ import annotations

import inspect
from functools import wraps

from corten import nn

from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn):
    """A function of a module as a pass: without a result of its own it counts as one that changed."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, nn.Module):
            return PassResult(result, True)
        raise TypeError(f"a pass gives a module or a PassResult, not {type(result).__name__}")

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this, that):
    """The constraint that one pass does not come behind another."""

    def depends_on(a, b):
        return a != that or b != this

    return depends_on


def _name(one):
    return getattr(one, "__name__", type(one).__name__)


class PassManager:
    """Runs passes one behind the other, in ``steps`` rounds or until nothing changes."""

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False,
                 suppress_check_failures=False):
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = 1 if steps is None else steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass):
        """Adds a pass at the end."""
        self.passes.append(_pass)

    def add_constraint(self, constraint):
        """Adds a constraint, and checks the order."""
        self.constraints.append(constraint)
        self.validate_constraints()

    def validate_constraints(self):
        """Checks every pair of passes.

        Raises:
            RuntimeError: A constraint is broken.
        """
        for place, this in enumerate(self.passes):
            for that in self.passes[place + 1:]:
                if not all(holds(this, that) for holds in self.constraints):
                    raise RuntimeError(
                        f"pass schedule constraint violated. Expected {this} before {that} but found "
                        f"{this} at index {place} and {that} at index {self.passes.index(that)} in pass "
                        "list."
                    )

    def add_checks(self, check):
        """Takes a function of one module, ``module``, that checks it after passes."""
        if list(inspect.signature(check).parameters) != ["module"]:
            raise TypeError(
                "PassManager check function should only take in one variable, a module"
            )
        self.check = check

    def check(self, module):
        """Checks a module; nothing by default."""

    def __call__(self, module):
        self.validate_constraints()
        self._check(module)
        changed = False
        for _ in range(self.steps):
            again = False
            for place, one in enumerate(self.passes):
                module, modified = self._run(place, one, module)
                again = again or modified
                if self.run_checks_after_each_pass:
                    self._check(module)
            changed = changed or again
            if not again:
                break
        return PassResult(module, changed)

    def _run(self, place, one, module):
        try:
            result = one(module)
            if not isinstance(result, PassResult):
                raise TypeError(
                    f"The result of the pass {_name(one)} should be type PassResult. Please wrap it "
                    "with pass_result_wrapper()"
                )
            return result
        except Exception as error:
            before = [_name(other) for other in self.passes[:place]]
            raise Exception(  # noqa: TRY002
                f"An error occurred when running the '{_name(one)}' pass after the following passes: "
                f"{before}"
            ) from error

    def _check(self, module):
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise
