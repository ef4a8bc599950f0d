"""Numbers at the ends of their range: a result or a clear error, never an internal one."""

import unittest
import warnings

from module_under_test import torch

F = torch.nn.functional
big = 2**62

CALLS = (
    'F.max_pool1d(torch.ones(1,1,4),big,dilation=4)',
    'F.max_pool2d(torch.ones(1,1,4,4),2,stride=big)',
    'F.max_pool2d(torch.ones(1,1,4,4),2,stride=2**63-1,ceil_mode=True)',
    'F.avg_pool2d(torch.ones(1,1,4,4),big)',
    'F.adaptive_avg_pool2d(torch.ones(1,1,4,4),big)',
    'F.conv2d(torch.ones(1,1,4,4),torch.ones(1,1,2,2),dilation=big)',
    'F.conv2d(torch.ones(1,1,4,4),torch.ones(1,1,2,2),padding=big)',
    'F.conv2d(torch.ones(1,1,4,4),torch.ones(1,1,2,2),stride=big)',
    'F.conv_transpose2d(torch.ones(1,1,4,4),torch.ones(1,1,2,2),stride=big)',
    'F.conv_transpose2d(torch.ones(1,1,4,4),torch.ones(1,1,2,2),output_padding=big)',
    'F.pad(torch.ones(2),(big,big))',
    'F.pad(torch.ones(2),(2**63-1,1))',
    "F.pad(torch.ones(1,2),(big,big),mode='replicate')",
    "F.pad(torch.ones(1,2),(-2**63,1),mode='circular')",
    'F.unfold(torch.ones(1,1,4,4),2,dilation=big)',
    'F.unfold(torch.ones(1,1,4,4),2,padding=big)',
    'F.fold(torch.ones(1,4,4),big,2)',
    'torch.ones(4).unfold(0,big,1)',
    'torch.ones(4).unfold(0,1,big)',
    'torch.ones(4)[-2**63:2**63-1]',
    'torch.ones(4)[::2**63-1]',
    'torch.ones(4).narrow(0,2**63-1,2**63-1)',
    'torch.ones(4).narrow(0,-2**63,1)',
    'torch.ones(4).select(0,-2**63)',
    'torch.ones(4).select(-2**63,0)',
    'torch.ones(4,4).diagonal(2**63-1)',
    'torch.ones(4,4).diagonal(-2**63)',
    'torch.ones(4,4).tril(-2**63)',
    'torch.ones(4,4).triu(2**63-1)',
    'torch.diag_embed(torch.ones(2),2**63-1)',
    'torch.diag_embed(torch.ones(2),-2**63)',
    'torch.diagflat(torch.ones(2),-2**63)',
    'torch.ones(4).roll(-2**63)',
    'torch.rot90(torch.ones(2,2),-2**63)',
    'torch.ones(4).as_strided((2**62,2**62),(2**62,2**62))',
    'torch.ones(4).as_strided((2,),(2**63-1,))',
    'torch.ones(4).as_strided((2,),(1,),2**63-1)',
    'torch.ones(1).expand(2**62,2**62)',
    'torch.ones(2).repeat(2**62)',
    'torch.ones(0).repeat(2**62,2**62)',
    'torch.ones(2).repeat_interleave(2**62)',
    'torch.ones(4).split(2**63-1)',
    'torch.ones(4).split([2**62,2**62,2**62,2**62])',
    'torch.ones(4).chunk(2**62)',
    'torch.arange(-2**63,2**63-1)',
    'torch.arange(0,1e300)',
    'torch.linspace(0,1,2**62)',
    'torch.eye(2**32)',
    'torch.eye(2**31,2**33)',
    'torch.triu_indices(3,3,-2**63)',
    'torch.randint(-2**63,2**63-1,(2,))',
    'torch.randperm(2**62)',
    'torch.multinomial(torch.ones(3),2**62,replacement=True)',
    'F.one_hot(torch.tensor([0]),2**62)',
    'F.embedding(torch.tensor([-2**63]),torch.ones(3,2))',
    'F.nll_loss(torch.ones(1,3),torch.tensor([-2**63]))',
    'torch.ones(3).gather(0,torch.tensor([-2**63]))',
    'torch.ones(3)[torch.tensor([-2**63])]',
    'torch.ones(3).take(torch.tensor([-2**63]))',
    'torch.ones(3).put_(torch.tensor([2**63-1]),torch.ones(1))',
    'torch.ones(3).index_add_(0,torch.tensor([-2**63]),torch.ones(1))',
    'torch.ones(3).index_select(0,torch.tensor([-2**63]))',
    'torch.zeros(*([1]*70)).sum()',
    'torch.zeros(*([1]*64)).sum(list(range(64)))',
    'F.group_norm(torch.ones(2,4),2**62)',
    'torch.ones(3).view(2**62,0)',
    'torch.ones(0).view(-1,0)',
    'torch.ones(4).view(2**62,4,2**62)',
    'torch.tensor([-2**63])//-1',
    'torch.tensor([-2**63])%-1',
    'torch.tensor([-2**63]).abs()',
    '-torch.tensor([-2**63])',
    'torch.tensor([3])**torch.tensor([100])',
    'torch.tensor([1])<<torch.tensor([-5])',
    "torch.tensor([float('nan'),1e300]).long()",
    'torch.ones(3).std(correction=2**62)',
    'torch.ones(3).cumsum(-2**63)',
    'torch.constant_pad_nd(torch.ones(2,2),[-2**63,0])',
    'torch.ones(2,2).movedim(2**62,0)',
    'torch.ones(2,2).flatten(-2**63,1)',
    'torch.ones(4).unflatten(0,(2**62,2**62))',
)


class Limits(unittest.TestCase):
    @unittest.skipIf(torch.__name__ == "torch", "PyTorch reads the freed memory")
    def test_storages_that_shrank_are_not_read(self):
        uses = (lambda x: x + 1, lambda x: x.sum(), lambda x: x[::2].clone(), lambda x: x.tolist(),
                lambda x: x @ x, lambda x: x.copy_(torch.ones(100, 100)), repr, lambda x: x.numpy(),
                lambda x: torch.ones(100, 100).add_(x), lambda x: x.__dlpack__())
        for size in (0, 8):
            for use in uses:
                x = torch.ones(100, 100)
                x.untyped_storage().resize_(size)
                with self.assertRaisesRegex(RuntimeError, "out of bounds for storage of size"):
                    use(x)

    def test_no_internal_error(self):
        for call in CALLS:
            with self.subTest(call), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    eval(call, {"torch": torch, "F": F, "big": big})
                except Exception as error:  # noqa: BLE001 any class but an internal one
                    self.assertNotIn("INTERNAL ASSERT", str(error))
                    self.assertIsInstance(error, (RuntimeError, IndexError, ValueError, TypeError))


if __name__ == "__main__":
    unittest.main()
