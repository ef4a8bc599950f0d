"""States of generators: what is set is what follows, in every stream, and wrong states are refused and change nothing."""

import copy
import pickle
import unittest

from module_under_test import torch


class States(unittest.TestCase):
    def test_what_is_set_follows(self):
        for draw in (lambda: torch.rand(5), lambda: torch.randn(3), lambda: torch.randn(17), lambda: torch.randperm(9)):
            torch.manual_seed(3)
            draw()
            state = torch.get_rng_state()
            expected = [draw().tolist() for _ in range(3)]
            torch.set_rng_state(state)
            self.assertEqual([draw().tolist() for _ in range(3)], expected)

    def test_half_of_a_pair_is_kept(self):
        # Normal numbers come in pairs: the second one is part of the state.
        generator = torch.Generator().manual_seed(5)
        torch.randn((), dtype=torch.float64, generator=generator)
        state = generator.get_state()
        expected = torch.randn((), dtype=torch.float64, generator=generator).item()
        generator.manual_seed(9)
        generator.set_state(state)
        self.assertEqual(torch.randn((), dtype=torch.float64, generator=generator).item(), expected)

    def test_wrong_states(self):
        generator = torch.Generator().manual_seed(7)
        for state in (torch.zeros(3, dtype=torch.uint8), generator.get_state()[:-1]):
            with self.assertRaises(RuntimeError):
                generator.set_state(state)
        with self.assertRaises(TypeError):
            generator.set_state(generator.get_state().float())
        self.assertEqual(generator.initial_seed(), 7)

    def test_copies(self):
        generator = torch.Generator().manual_seed(11)
        torch.rand(3, generator=generator)
        for other in (generator.clone_state(), pickle.loads(pickle.dumps(generator))):
            self.assertEqual(torch.equal(other.get_state(), generator.get_state()), True)
            state = generator.get_state()
            expected = torch.rand(4, generator=generator)
            self.assertEqual(torch.rand(4, generator=other).tolist(), expected.tolist())
            generator.set_state(state)


if __name__ == "__main__":
    unittest.main()
