"""Attention over sequences that are spread over ranks equals that of one process, gradients too."""

import unittest

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import corten.distributed as dist
from corten.distributed.device_mesh import init_device_mesh
from corten.distributed.tensor.experimental import context_parallel
from corten.distributed.tensor.experimental._attention import (
    _context_parallel_shard, _cp_options, _HeadTailLoadBalancer, context_parallel_unshard, set_rotate_method,
)
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import TransformerBlock, filled

nn, F = torch.nn, torch.nn.functional


def values(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes]


class Attention(unittest.TestCase):
    def setUp(self):
        self.addCleanup(set_rotate_method, "allgather")
        self.addCleanup(setattr, _cp_options, "enable_load_balance", True)

    def compare(self, size, tolerance=1e-12, dtype=torch.float64, width=4, heads=2, **options):
        shape, kv = (2, 2, 8 * size, 4), (2, heads, 8 * size, 4)
        query, key, value, grad = values(shape, kv, (*kv[:3], width), (*shape[:3], width), dtype=dtype)
        leaves = [one.clone().requires_grad_() for one in (query, key, value)]
        expected = F.scaled_dot_product_attention(*leaves, **options)
        expected.backward(grad)

        def run():
            mesh = init_device_mesh("cpu", (size,))
            own = [one.clone() for one in (query, key, value, grad)]
            with context_parallel(mesh, buffers=own, buffer_seq_dims=[2] * 4, no_restore_buffers={own[3]}):
                self.assertEqual(own[0].shape[2], 8)
                parts = [one.detach().clone().requires_grad_() for one in own[:3]]
                found = F.scaled_dot_product_attention(*parts, **options)
                found.backward(own[3].clone())
            whole = context_parallel_unshard(mesh, [found, *(one.grad for one in parts)], [2] * 4)
            self.assertTrue(torch.equal(own[0], query))
            self.assertEqual(own[3].shape[2], 8)
            return whole

        for found in run_threads(size, run):
            for one, other in zip(found, [expected, *(leaf.grad for leaf in leaves)]):
                self.assertEqual(one.dtype, dtype)
                self.assertLess((one.double() - other.double()).abs().max().item(), tolerance)

    def test_as_in_one_process(self):
        for method in ("allgather", "alltoall"):
            for balanced in (True, False):
                for causal in (True, False):
                    for size in (1, 2, 3):
                        with self.subTest(method, balanced=balanced, causal=causal, size=size):
                            set_rotate_method(method)
                            _cp_options.enable_load_balance = balanced
                            self.compare(size, is_causal=causal)

    def test_kinds_of_arguments(self):
        self.compare(2, is_causal=True, scale=0.3)
        self.compare(2, is_causal=True, width=3)
        self.compare(2, heads=1, enable_gqa=True, is_causal=True)
        self.compare(2, 1e-5, torch.float32, is_causal=True)
        self.compare(2, 0.06, torch.bfloat16, is_causal=True)

    def test_training_of_a_block(self):
        (x,) = values((2, 8, 6))
        reference = filled(TransformerBlock(6, 2))
        reference(x).pow(2).sum().backward()

        def run():
            mesh, model, own = init_device_mesh("cpu", (2,)), filled(TransformerBlock(6, 2)), x.clone()
            with context_parallel(mesh, buffers=[own], buffer_seq_dims=[1]):
                model(own).pow(2).sum().backward()
            for param in model.parameters():
                dist.all_reduce(param.grad)
            return [param.grad for param in model.parameters()]

        for found in run_threads(2, run):
            for one, param in zip(found, reference.parameters()):
                torch.testing.assert_close(one, param.grad)

    def test_outside_nothing_changes(self):
        before = F.scaled_dot_product_attention

        def run():
            mesh = init_device_mesh("cpu", (2,))
            with self.assertRaisesRegex(ZeroDivisionError, "division"):
                with context_parallel(mesh):
                    1 / 0

        run_threads(2, run)
        self.assertIs(F.scaled_dot_product_attention, before)

    def test_parts(self):
        def run():
            mesh, whole = init_device_mesh("cpu", (2,)), torch.arange(16).view(2, 8)
            balanced = _HeadTailLoadBalancer(8, 2)
            part, = _context_parallel_shard(mesh, [whole], [1], balanced)
            self.assertEqual(part[0].tolist(), [[0, 1, 6, 7], [2, 3, 4, 5]][dist.get_rank()])
            plain, = _context_parallel_shard(mesh, [whole], [1])
            self.assertEqual(plain[0].tolist(), [[0, 1, 2, 3], [4, 5, 6, 7]][dist.get_rank()])
            again, = context_parallel_unshard(mesh, [part], [1], balanced)
            self.assertTrue(torch.equal(again, whole))

        run_threads(2, run)

    def test_errors(self):
        def run():
            mesh, x = init_device_mesh("cpu", (2,)), torch.zeros(1, 1, 4, 2)
            with self.assertRaisesRegex(ValueError, "same number of elements"):
                with context_parallel(mesh, buffers=[x]):
                    pass
            with self.assertRaisesRegex(ValueError, "must be a subset"):
                with context_parallel(mesh, no_restore_buffers={x}):
                    pass
            with self.assertRaisesRegex(ValueError, "multiple of twice the number of processes, 4"):
                with context_parallel(mesh, buffers=[torch.zeros(6)], buffer_seq_dims=[0]):
                    pass
            with context_parallel(mesh):
                with self.assertRaisesRegex(NotImplementedError, "attn_mask and dropout_p"):
                    F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
            with self.assertRaisesRegex(NotImplementedError, "for kv shards rotation"):
                set_rotate_method("none")

        run_threads(2, run)


if __name__ == "__main__":
    unittest.main()
