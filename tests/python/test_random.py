"""Random numbers: bit-equal to PyTorch's for one seed."""

import os
import subprocess
import sys
import unittest

from module_under_test import torch

RAND = {
    0: "0x1.fc2ab0p-2 0x1.89545ep-1 0x1.6a6750p-4 0x1.0e6600p-3",
    1: "0x1.83e84ap-1 0x1.1e03acp-2 0x1.9cbe30p-2 0x1.782890p-1",
    42: "0x1.c3b8ccp-1 0x1.d47b66p-1 0x1.880d70p-2 0x1.eb2a1cp-1",
}
RANDN4 = {
    0: [1.5409960746765137, -0.293428897857666, -2.1787893772125244, 0.5684312582015991],
    1: [0.6613521575927734, 0.266924113035202, 0.06167725846171379, 0.6213173270225525],
    42: [0.33669036626815796, 0.12880940735340118, 0.23446236550807953, 0.23033303022384644],
}
RANDN16 = {
    0: ([-1.1258398294448853, -1.152360200881958, -0.2505785822868347, -0.4338788092136383],
        -0.2472781538963318),
    1: ([-1.5255959033966064, -0.7502318024635315, -0.6539809107780457, -1.6094847917556763],
        0.46763551235198975),
    42: ([1.9269152879714966, 1.4872840642929077, 0.9007171988487244, -2.1055209636688232],
         0.7624453902244568),
}
RANDINT = {0: [44, 39, 33, 60, 63, 79, 27, 3], 1: [45, 39, 24, 68, 63, 13, 91, 41],
           42: [42, 67, 76, 14, 26, 35, 20, 24]}
RANDPERM = {0: [4, 1, 7, 5, 3, 9, 0, 8, 6, 2], 1: [5, 6, 1, 2, 0, 8, 9, 3, 7, 4],
            42: [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]}
BERNOULLI = {0: "0010001101", 1: "1111011001", 42: "1111010011"}


class Goldens(unittest.TestCase):
    def each(self, goldens, draw):
        for seed, expected in goldens.items():
            with self.subTest(seed):
                torch.manual_seed(seed)
                self.assertEqual(draw(), expected)

    def test_rand(self):
        numbers = {seed: [float.fromhex(x) for x in text.split()] for seed, text in RAND.items()}
        self.each(numbers, lambda: torch.rand(4).tolist())

    def test_randn(self):
        self.each(RANDN4, lambda: torch.randn(4).tolist())

    def test_randn_in_blocks(self):
        def draw():
            numbers = torch.randn(16).tolist()
            return numbers[:4], numbers[-1]

        self.each(RANDN16, draw)

    def test_randint(self):
        self.each(RANDINT, lambda: torch.randint(0, 100, (8,)).tolist())

    def test_randperm(self):
        self.each(RANDPERM, lambda: torch.randperm(10).tolist())

    def test_bernoulli(self):
        def draw():
            return "".join(str(int(x)) for x in torch.empty(10).bernoulli_(0.5).tolist())

        self.each(BERNOULLI, draw)

    def test_initial_weights(self):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
        self.assertEqual(layer.weight.tolist(), [
            [-0.004322517663240433, 0.3097158372402191, -0.4751853346824646],
            [-0.4248946011066437, -0.2223689705133438, 0.15482072532176971],
        ])
        self.assertEqual(layer.bias.tolist(), [-0.011439144611358643, 0.45777493715286255])


class State(unittest.TestCase):
    def test_the_state_restores_the_stream(self):
        torch.manual_seed(3)
        torch.randn(5)
        state = torch.get_rng_state()
        self.assertEqual(state.numel(), 5056)
        first = torch.randn(7).tolist()
        torch.set_rng_state(state)
        self.assertEqual(torch.randn(7).tolist(), first)

    def test_a_generator_is_a_stream_of_its_own(self):
        one = torch.Generator().manual_seed(9)
        first = torch.rand(3, generator=one).tolist()
        torch.rand(100)
        self.assertEqual(torch.rand(3, generator=one.manual_seed(9)).tolist(), first)

    def test_each_process_begins_elsewhere(self):
        name = torch.__name__
        program = f"import {name} as torch; print(torch.initial_seed(), torch.Generator().initial_seed())"
        unseeded = {key: value for key, value in os.environ.items() if key != "CORTEN_SEED"}

        def seeds(environment):
            ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
            return ran.stdout.split()

        (one, new), (other, _) = seeds(unseeded), seeds(unseeded)
        self.assertNotEqual(one, other)
        self.assertEqual(new, "67280421310721")
        if name == "corten":
            self.assertEqual(seeds({**unseeded, "CORTEN_SEED": "12"})[0], "12")


if __name__ == "__main__":
    unittest.main()
