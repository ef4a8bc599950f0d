"""An exception raised in a hook reaches the caller of a backward pass, which crashed where the pass had given the
interpreter lock up."""

import unittest

from module_under_test import torch


class Raised(Exception):
    pass


def fail(gradient):
    raise Raised("in a hook")


class Hooks(unittest.TestCase):
    def check(self, register):
        for size in (3, 300_000):
            x = torch.ones(size, requires_grad=True)
            middle = x * 2
            handle = register(x, middle)
            total = (middle * middle).sum()
            with self.assertRaisesRegex(Raised, "in a hook"):
                total.backward(retain_graph=True)
            handle.remove()
            x.grad = None
            total.backward()
            self.assertEqual(x.grad.unique().tolist(), [8.0])

    def test_of_a_result(self):
        self.check(lambda x, middle: middle.register_hook(fail))

    def test_of_a_leaf(self):
        self.check(lambda x, middle: x.register_hook(fail))

    def test_after_accumulation(self):
        self.check(lambda x, middle: x.register_post_accumulate_grad_hook(fail))

    def test_before_a_node(self):
        self.check(lambda x, middle: middle.grad_fn.register_prehook(fail))


if __name__ == "__main__":
    unittest.main()
