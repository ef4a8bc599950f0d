"""Sobol' sequences."""

import copy
import importlib
import pickle
import unittest

from module_under_test import torch

SobolEngine = importlib.import_module(f"{torch.__name__}.quasirandom").SobolEngine


class Sequences(unittest.TestCase):
    def test_first_points(self):
        expected = [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75], [0.375, 0.375, 0.625]]
        engine = SobolEngine(3)
        self.assertEqual(engine.draw(5).tolist(), expected)
        self.assertEqual(engine.num_generated, 5)
        engine.reset()
        self.assertEqual(torch.cat([engine.draw(), engine.draw(2), engine.draw(2)]).tolist(), expected)
        self.assertEqual(engine.reset().fast_forward(3).draw(2).tolist(), expected[3:])
        self.assertEqual(engine.draw(0).tolist(), [])

    def test_scrambled_points(self):
        expected = [
            [0.19947312772274017, 0.17093220353126526, 0.7493569254875183],
            [0.6922082901000977, 0.7114949226379395, 0.48982980847358704],
            [0.8505491018295288, 0.2962706387042999, 0.7879806160926819],
            [0.3578137159347534, 0.8368963003158569, 0.04311750829219818],
        ]
        engine = SobolEngine(3, scramble=True, seed=7)
        self.assertEqual(engine.draw(4).tolist(), expected)
        self.assertEqual(repr(engine), "SobolEngine(dimension=3, scramble=True, seed=7)")
        torch.manual_seed(3)
        first, other = SobolEngine(2, scramble=True).draw(4), SobolEngine(2, scramble=True).draw(4)
        torch.manual_seed(3)
        self.assertEqual(SobolEngine(2, scramble=True).draw(4).tolist(), first.tolist())
        self.assertNotEqual(first.tolist(), other.tolist())

    def test_many_dimensions(self):
        points = SobolEngine(1111).fast_forward(1000).draw(2, dtype=torch.float64)
        self.assertEqual(points[:, [0, 1, 500, 1110]].tolist(), [
            [0.2197265625, 0.0966796875, 0.7255859375, 0.3701171875],
            [0.7197265625, 0.5966796875, 0.2255859375, 0.8701171875],
        ])
        self.assertEqual(points.sum().item(), 1096.427734375)
        state = SobolEngine(SobolEngine.MAXDIM).sobolstate
        self.assertEqual(state[[1, 2, 5000, 21200]][:, [0, 9, 29]].tolist(), [
            [536870912, 808452096, 858993459], [536870912, 657457152, 385885991],
            [536870912, 386924544, 984738465], [536870912, 256901120, 254952011],
        ])
        self.assertEqual(state.sum().item(), 341565579072477)

    def test_powers_of_two(self):
        engine = SobolEngine(2)
        self.assertEqual(tuple(engine.draw_base2(3).shape), (8, 2))
        with self.assertRaisesRegex(ValueError, "require n to be a power of 2. 8 points have been previously"):
            engine.draw_base2(2)
        points = torch.cat([SobolEngine(2).draw_base2(3)])
        for column in points.t():
            self.assertEqual(sorted(column.tolist()), [place / 8 for place in range(8)])

    def test_arguments(self):
        for dimension in (0, 21202, -1):
            with self.assertRaisesRegex(ValueError, r"for SobolEngine is \[1, 21201\]"):
                SobolEngine(dimension)
        with self.assertRaises(ValueError):
            SobolEngine(2).draw(-1)
        out = torch.empty(0)
        self.assertIs(SobolEngine(2).draw(3, out=out), out)
        self.assertEqual(tuple(out.shape), (3, 2))
        self.assertEqual(SobolEngine(2).draw(3, dtype=torch.float64).dtype, torch.float64)

    def test_copies(self):
        engine = SobolEngine(2)
        engine.draw(3)
        copies = [copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))]
        expected = engine.draw(2).tolist()
        self.assertEqual([other.draw(2).tolist() for other in copies], [expected] * 2)


if __name__ == "__main__":
    unittest.main()
