"""Lazy clones: tensors that share memory until one of them is written to."""

import copy
import io
import threading
import unittest
import warnings
import zlib

import forward_cases
import numpy as np
from module_under_test import torch

is_cow, address = torch._C._is_cow_tensor, torch._C._data_address


def pair():
    x = torch.arange(6.0).reshape(2, 3)
    return x, x._lazy_clone()


class LazyClones(unittest.TestCase):
    """When memory is shared, and when it is not any more."""

    def test_both_share_one_block(self):
        x = torch.arange(6).reshape(2, 3)[:, 1:]
        storage, start = torch._C._storage_address(x), address(x)
        for clone in (x._lazy_clone(), torch._lazy_clone(x)):
            self.assertTrue(is_cow(x) and is_cow(clone))
            self.assertEqual((address(clone), address(x), torch._C._storage_address(x)), (start, start, storage))
            self.assertNotEqual(torch._C._storage_address(clone), storage)
            self.assertEqual((clone.stride(), clone.storage_offset()), (x.stride(), x.storage_offset()))
            self.assertEqual(clone.tolist(), x.tolist())
            self.assertEqual(clone._version, 0)
        self.assertFalse(is_cow(torch.arange(3)))

    def test_the_first_write_copies_and_the_last_does_not(self):
        x, clone = pair()
        start = address(x)
        view = x.view(6)
        view += 1
        self.assertFalse(is_cow(x) or is_cow(view))
        self.assertTrue(is_cow(clone))
        self.assertNotEqual(address(x), start)
        self.assertEqual(address(view), address(x))
        self.assertEqual((x.tolist(), clone.tolist()), ([[1, 2, 3], [4, 5, 6]], [[0, 1, 2], [3, 4, 5]]))
        clone[0, 0] = -1
        self.assertEqual((address(clone), is_cow(clone)), (start, False))
        self.assertEqual(x[0, 0].item(), 1)

    def test_every_way_to_write(self):
        writes = (
            lambda t: t.add_(1), lambda t: t.fill_(7), lambda t: t.zero_(), lambda t: t.copy_(torch.ones(2, 3)),
            lambda t: t.__setitem__(0, 5), lambda t: t.__setitem__(t > 2, 0), lambda t: t.t().mul_(2),
            lambda t: torch.add(t, 1, out=t), lambda t: torch.mul(torch.ones(2, 3), 3, out=t),
            lambda t: t.index_add_(0, torch.tensor([0]), torch.ones(1, 3)), lambda t: t.uniform_(),
            lambda t: torch._foreach_add_([t], 1.0), lambda t: t.numpy().__setitem__(0, 9),
            lambda t: np.asarray(t).__setitem__(0, 9), lambda t: np.from_dlpack(t).__array__(),
            lambda t: t.data_ptr(), lambda t: t.untyped_storage().data_ptr(),
            lambda t: t.untyped_storage().fill_(0), lambda t: t.untyped_storage().__setitem__(0, 1),
            lambda t: t.untyped_storage().resize_(100), lambda t: t.resize_(50),
            lambda t: torch.sort(torch.ones(2, 3), out=(t, torch.empty(2, 3, dtype=torch.int64))),
            lambda t: torch.nn.functional.relu(t, inplace=True), lambda t: t.sub_(t), lambda t: t.transpose(0, 1).exp_(),
        )
        for place, write in enumerate(writes):
            x, clone = pair()
            with torch.no_grad():
                write(clone)
            self.assertFalse(is_cow(clone), place)
            self.assertTrue(is_cow(x), place)
            self.assertEqual(x.tolist(), [[0, 1, 2], [3, 4, 5]], place)
            self.assertNotEqual(address(clone), address(x), place)

    def test_reads_share_on(self):
        x, clone = pair()
        file = io.BytesIO()
        for read in (
            lambda t: t + 1, lambda t: t @ t.t(), lambda t: t.sum(), lambda t: t[0, 1].item(), str, lambda t: t.tolist(),
            lambda t: t.view(3, 2), lambda t: t.t().contiguous(), lambda t: t.sort(), lambda t: torch.cat([t, t]),
            lambda t: t.softmax(1), lambda t: torch.nn.functional.linear(t, t), lambda t: t.double(), lambda t: t.clone(),
            lambda t: t == x, lambda t: torch.equal(t, x), lambda t: t.const_data_ptr() if hasattr(t, "const_data_ptr") else 0,
            lambda t: t.detach(), lambda t: t.untyped_storage().nbytes(), lambda t: t.untyped_storage().tolist(),
            lambda t: t._lazy_clone(), lambda t: torch.zeros(2, 3).copy_(t), lambda t: t.max(), lambda t: t.cumsum(0),
            copy.copy,
        ):
            read(clone)
            self.assertTrue(is_cow(clone))
        torch.save(clone, file)
        self.assertEqual(torch.load(io.BytesIO(file.getvalue())).tolist(), x.tolist())

    def test_clones_in_one_file_are_apart(self):
        x, clone = pair()
        file = io.BytesIO()
        torch.save([x, clone], file)
        first, second = torch.load(io.BytesIO(file.getvalue()))
        first.zero_()
        self.assertEqual(second.tolist(), clone.tolist())

    def test_memory_that_others_see_is_copied_at_once(self):
        x = torch.arange(3.0)
        array = x.numpy()
        clone = x._lazy_clone()
        array[0] = 7
        self.assertEqual((x.tolist(), clone.tolist()), ([7, 1, 2], [0, 1, 2]))
        foreign = torch.from_numpy(np.arange(3.0))
        clone = foreign._lazy_clone()
        foreign[0] = 9
        self.assertEqual(clone.tolist(), [0, 1, 2])

    def test_many_clones(self):
        x = torch.arange(1000)
        clones = [x._lazy_clone() for _ in range(5)]
        again = clones[0]._lazy_clone()
        for place, clone in enumerate(clones):
            clone += place
        self.assertEqual(again.tolist(), list(range(1000)))
        for place, clone in enumerate(clones):
            self.assertEqual((clone - place).tolist(), list(range(1000)))
        self.assertEqual(x.tolist(), list(range(1000)))
        del x, clones
        start = address(again)
        again += 1
        self.assertEqual(address(again), start)

    def test_gradients(self):
        x = torch.arange(3.0, requires_grad=True)
        clone = x._lazy_clone()
        (clone.mul_(2) * x).sum().backward()
        self.assertEqual(x.grad.tolist(), [0, 4, 8])
        self.assertEqual(x.tolist(), [0, 1, 2])

    def test_dtypes_shapes_and_lazy_bits(self):
        for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64):
            x = torch.ones(2, 2, dtype=dtype)
            clone = x._lazy_clone()
            clone.zero_()
            self.assertEqual((x.sum().item(), clone.sum().item()), (4, 0))
        for shape in ((0,), (), (2, 0, 3)):
            self.assertEqual(torch.ones(shape)._lazy_clone().shape, torch.Size(shape))
        z = torch.tensor([1 + 2j]).conj()
        self.assertEqual(z._lazy_clone().tolist(), [1 - 2j])
        self.assertEqual(torch.vmap(lambda t: t._lazy_clone() + 1)(torch.arange(3)).tolist(), [1, 2, 3])

    def test_threads(self):
        failures = []

        def work(tensor, value):
            tensor.fill_(value)
            if tensor.sum().item() != value * tensor.numel():
                failures.append(value)

        for _ in range(20):
            x = torch.ones(5000)
            clones = [x._lazy_clone() for _ in range(4)]
            threads = [threading.Thread(target=work, args=pair) for pair in zip(clones, range(2, 6))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(x.sum().item(), 5000)
        self.assertEqual(failures, [])


# Operators that write to what their schemas do not mark: running statistics, and a storage that grows.
WRITE = ("aten::instance_norm", "aten::set_.source_Tensor_storage_offset")


@unittest.skipUnless(torch.__name__ == "corten", "over the registry")
class EveryOperator(unittest.TestCase):
    """No operator makes the memory of an argument its own that it only reads."""

    def test_inputs_stay_shared(self):
        from corten import ops

        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        found, compared = set(), 0
        for operator in forward_cases.operators(ops.all()):
            if operator.schema.outputs:
                continue
            turn = zlib.crc32(operator.schema.base.encode())
            cases = [case for case in operator.cases() if case[3] == "contiguous"]
            for case in cases[3::5] + cases[turn % 5:turn % 5 + 1]:
                positional, keywords = forward_cases.Maker(torch, *case[1:4]).arguments(operator.schema, case[0])
                read = []
                given = {a.name: v for a, v in zip(operator.schema.arguments, positional)} | keywords
                for argument in operator.schema.arguments:
                    value = given.get(argument.name)
                    if isinstance(value, torch.Tensor) and not argument.written and value.layout is torch.strided:
                        clone = value._lazy_clone()
                        read += [(clone, value)] if is_cow(clone) else []
                        given[argument.name] = clone
                positional = [given[a.name] for a, _ in zip(operator.schema.arguments, positional)]
                keywords = {name: given[name] for name in keywords}
                try:
                    forward_cases.find(torch, operator, None)(*positional, **keywords)
                except Exception:  # pylint: disable=broad-exception-caught
                    continue
                compared += len(read)
                found.update(operator.name for clone, _ in read if not is_cow(clone))
        self.assertEqual(sorted(found), sorted(WRITE))
        self.assertGreaterEqual(compared, 2850)




if __name__ == "__main__":
    unittest.main()
