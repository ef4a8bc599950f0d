"""Fifty steps of sharded models over two ranks are those of one process."""

import unittest

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

from sharded_models import GPT, ResNet, image_batches, token_batches, token_loss
from sharded_training import momentum, sharded, trained_beside

F = torch.nn.functional


class Training(unittest.TestCase):
    def test_gpt_for_50_steps(self):
        worst = trained_beside(
            lambda: GPT(layers=1), sharded, lambda: token_batches(50, 4), token_loss, momentum, lr=1e-2)
        self.assertLess(worst, 1e-6)

    def test_resnet_for_50_steps(self):
        worst = trained_beside(
            ResNet, sharded, lambda: image_batches(50, 4), F.cross_entropy, momentum, lr=1e-2)
        self.assertLess(worst, 1e-6)


if __name__ == "__main__":
    unittest.main()
