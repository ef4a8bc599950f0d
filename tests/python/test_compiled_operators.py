"""Every operator in a compiled function and outside: results, versions, histories and errors are the same.

The calls are those of ``test_general_paths``. Errors that depend on values may come when the function returns.
"""

import unittest
import warnings

import numpy as np
import test_general_paths as paths
from module_under_test import torch


@torch.compile
def compiled(call, positional, keywords):
    return call(*positional, **keywords)


class CompiledOperators(paths.GeneralPaths):
    """Every operator at once and deferred."""

    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        self.enterContext(np.errstate(all="ignore"))
        self.differences, self.counts = [], {"done": 0, "error": 0}

    def compare(self, title, make, call, unwritten=False, seed=False):
        def once(run):
            if seed:
                torch.manual_seed(11)
            return paths.outcome(make, run, unwritten)

        def later(*positional, **keywords):
            return compiled(call, positional, keywords)

        eager = once(call)
        self.counts[eager[0]] += 1
        # The first call of a kind with certain dtypes runs at once, the second one is recorded.
        for found in (once(later), once(later)):
            if cleaned(found) != eager:
                self.differences.append(f"{title} {paths.apart(cleaned(found), eager)}")
                break


def cleaned(found):
    """An outcome without the line that errors of deferred calls name."""
    if found[0] == "error":
        found[2] = found[2].partition("\n(recorded at ")[0]
    return found


if __name__ == "__main__":
    unittest.main()
