"""Long tensors of random numbers have PyTorch's bits, in every number: a rounding that differs once in ten thousand
numbers is not seen in short ones."""

import unittest
import zlib

from module_under_test import torch

#: Checksums of what PyTorch draws after `manual_seed`, in the order of `draws`.
CHECKSUMS = {
    0: (1305001513, 613236381, 1799855850, 65767380, 709263748, 213053235, 3272560915, 1395285476, 1383753178,
        2480067174),
    1: (3215756211, 1648621102, 422261149, 317513842, 3349974194, 1540168248, 1915098704, 1044700333, 2568669992,
        3123520526),
    2026: (3165643506, 54295608, 2341001236, 2464637510, 2479018990, 2310285580, 1288911708, 3761017011, 177709802,
           1896040482),
}
DRAWS = {
    "randn": lambda: torch.randn(1 << 20),
    "normal_": lambda: torch.empty(1 << 20).normal_(1.5, 0.3),
    "randn of bfloat16": lambda: torch.randn(1 << 18, dtype=torch.bfloat16),
    "randn of float16": lambda: torch.randn(1 << 18, dtype=torch.float16),
    "randn with a remainder": lambda: torch.randn(100003),
    "rand": lambda: torch.rand(1 << 18),
    "complex randn": lambda: torch.view_as_real(torch.randn(1 << 16, dtype=torch.complex64)).flatten(),
    "a matrix": lambda: torch.randn(64, 64).t().contiguous(),
    "randint": lambda: torch.randint(0, 1000, (1 << 16,)),
    "randperm": lambda: torch.randperm(1 << 16),
}


class Bits(unittest.TestCase):
    def test_checksums(self):
        for seed, expected in CHECKSUMS.items():
            for (name, draw), checksum in zip(DRAWS.items(), expected):
                with self.subTest(name, seed=seed):
                    torch.manual_seed(seed)
                    found = zlib.crc32(draw().contiguous().view(torch.uint8).numpy().tobytes())
                    self.assertEqual(found, checksum)


if __name__ == "__main__":
    unittest.main()
