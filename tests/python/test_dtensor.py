"""Distributed tensors: making them, changing placements, what modules and files do with them, errors."""

from __future__ import annotations

import copy
import importlib
import io
import itertools
import pickle
import unittest

from module_under_test import torch

from dtensor_world import run_ranks

dt = importlib.import_module(f"{torch.__name__}.distributed.tensor")
debug = importlib.import_module(f"{torch.__name__}.distributed.tensor.debug")
random_numbers = importlib.import_module(f"{torch.__name__}.distributed.tensor._random")
utils = importlib.import_module(f"{torch.__name__}.distributed.tensor._utils")
types = importlib.import_module(f"{torch.__name__}.distributed.tensor.placement_types")
Shard, Replicate, Partial = dt.Shard, dt.Replicate, dt.Partial


def on_ranks(count=2):
    """Runs a test on so many ranks."""

    def decorate(method):
        def test(self):
            run_ranks(count, lambda: method(self))

        test.__doc__, test.__name__ = method.__doc__, method.__name__
        return test

    return decorate


def mesh_of(*shape):
    """A mesh of processors."""
    return dt.init_device_mesh("cpu", shape)


def numbers(*shape):
    """Different numbers."""
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, dtype=torch.float64).reshape(shape)


class Making(unittest.TestCase):
    """From whole tensors, from parts, and from sizes."""

    @on_ranks(4)
    def test_distribute(self):
        mesh = mesh_of(2, 2)
        whole = numbers(5, 7)
        for a, b in itertools.product([Replicate(), Shard(0), Shard(1), Partial()], repeat=2):
            made = dt.distribute_tensor(whole, mesh, [a, b])
            self.assertEqual(made.shape, whole.shape)
            self.assertEqual(made.placements, (a, b))
            self.assertEqual(tuple(made.to_local().shape), utils.compute_local_shape(whole.shape, mesh, [a, b]))
            self.assertTrue(torch.equal(made.full_tensor(), whole), f"{a} {b}")

    @on_ranks(4)
    def test_offsets(self):
        mesh = mesh_of(4)
        whole = numbers(6, 2)
        part = dt.distribute_tensor(whole, mesh, [Shard(0)]).to_local()
        shape, offset = utils.compute_local_shape_and_global_offset(whole.shape, mesh, [Shard(0)])
        rank = mesh.get_local_rank()
        self.assertEqual((shape, offset), [((2, 2), (0, 0)), ((2, 2), (2, 0)), ((2, 2), (4, 0)), ((0, 2), (6, 0))][rank])
        self.assertEqual(tuple(part.shape), shape)

    @on_ranks()
    def test_from_local(self):
        mesh = mesh_of(2)
        rank = mesh.get_local_rank()
        part = (numbers(2, 3) + rank).requires_grad_()
        made = dt.DTensor.from_local(part, mesh, [Shard(0)])
        self.assertEqual((tuple(made.shape), made.stride()), ((4, 3), (3, 1)))
        (made * 2).to_local().sum().backward()
        self.assertTrue(torch.equal(part.grad, torch.full((2, 3), 2.0, dtype=torch.float64)))
        term = numbers(3).requires_grad_()
        total = dt.DTensor.from_local(term, mesh, [Partial()]).full_tensor()
        self.assertTrue(torch.equal(total, numbers(3) * 2))
        total.sum().backward()
        self.assertTrue(torch.equal(term.grad, torch.ones(3, dtype=torch.float64)))
        uneven = numbers(2 - rank, 3)
        made = dt.DTensor.from_local(uneven, mesh, [Shard(0)], shape=torch.Size([3, 3]), stride=(3, 1))
        self.assertEqual(tuple(made.full_tensor().shape), (3, 3))

    @on_ranks()
    def test_sizes(self):
        mesh = mesh_of(2)
        for name, value in (("zeros", 0.0), ("ones", 1.0)):
            made = getattr(dt, name)(5, 2, device_mesh=mesh, placements=[Shard(0)])
            self.assertTrue(torch.equal(made.full_tensor(), torch.full((5, 2), value)))
        made = dt.full((3, 2), 7, device_mesh=mesh, placements=[Shard(-1)])
        self.assertEqual((made.dtype, made.placements), (torch.int64, (Shard(1),)))
        self.assertEqual(made.full_tensor().tolist(), [[7, 7]] * 3)
        self.assertEqual(dt.empty([4], device_mesh=mesh, placements=[Shard(0)]).to_local().numel(), 2)

    @on_ranks()
    def test_random(self):
        mesh = mesh_of(2)
        random_numbers.manual_seed(3, mesh)
        found = [
            dt.rand(5, 4, device_mesh=mesh, placements=[Shard(0)]),
            dt.randn(3, 4, device_mesh=mesh, placements=[Shard(1)]),
            dt.randn(3, device_mesh=mesh, placements=[Replicate()]),
            torch.nn.functional.dropout(dt.ones(6, 4, device_mesh=mesh, placements=[Shard(0)]), 0.5),
            dt.empty(5, 2, device_mesh=mesh, placements=[Shard(0)]).uniform_(-1, 1),
        ]
        generator = torch.Generator().manual_seed(3)
        expected = [torch.rand(5, 4, generator=generator), torch.randn(3, 4, generator=generator),
                    torch.randn(3, generator=generator)]
        for one, whole in zip(found, expected):
            self.assertTrue(torch.equal(one.full_tensor(), whole))
        kept = found[3].full_tensor()
        self.assertTrue(((kept == 0) | (kept == 2)).all() and 0 < (kept == 0).sum() < 24)
        self.assertLess(found[4].full_tensor().min().item(), 0)

    @on_ranks()
    def test_errors(self):
        mesh = mesh_of(2)
        made = dt.distribute_tensor(numbers(4, 4), mesh, [Shard(0)])
        plain = numbers(4, 4)
        for kind, words, call in (
            (RuntimeError, "got mixed torch.Tensor and DTensor", lambda: made + plain),
            (NotImplementedError, "aten.nonzero.default does not have a sharding strategy registered",
             lambda: torch.nonzero(made)),
            (RuntimeError, "placements is needed for redistribute!", lambda: made.redistribute()),
            (AssertionError, "Sharding dim 3 greater than tensor ndim 2",
             lambda: made.redistribute(placements=[Shard(3)])),
            (RuntimeError, "Can not redistribute from R to P\\(sum\\)",
             lambda: made.redistribute(placements=[Replicate()]).redistribute(placements=[Partial()])),
            (ValueError, "`placements` must have the same length as `device_mesh.ndim`!",
             lambda: dt.distribute_tensor(plain, mesh, [Shard(0), Shard(1)])),
            (RuntimeError, "Please pass both shape and stride at the same time",
             lambda: dt.DTensor.from_local(plain, mesh, [Shard(0)], shape=torch.Size([8, 4]))),
            (RuntimeError, "in-place operations that require placement changes are not supported",
             lambda: dt.distribute_tensor(plain, mesh, [Partial()]).relu_()),
            (RuntimeError, "leaf tensor", lambda: dt.distribute_tensor(plain.requires_grad_() * 2, mesh, [Shard(0)])),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()


class Redistributing(unittest.TestCase):
    """Between all placements."""

    @on_ranks(4)
    def test_one_dimension(self):
        mesh = mesh_of(4)
        for shape in ((8, 4), (5, 7), (3, 2)):
            whole = numbers(*shape)
            for before in (Replicate(), Shard(0), Shard(1), Partial(), Partial("avg"), Partial("max")):
                made = dt.distribute_tensor(whole, mesh, [before])
                for after in (Replicate(), Shard(0), Shard(1)):
                    found = made.redistribute(placements=[after])
                    expected = dt.distribute_tensor(whole, mesh, [after])
                    self.assertTrue(torch.equal(found.to_local(), expected.to_local()), f"{shape} {before} {after}")

    @on_ranks(4)
    def test_two_dimensions(self):
        mesh = mesh_of(2, 2)
        whole = numbers(5, 6)
        choices = [Replicate(), Shard(0), Shard(1), Partial()]
        for before in itertools.product(choices, repeat=2):
            made = dt.distribute_tensor(whole, mesh, before)
            for after in itertools.product(choices[:3], repeat=2):
                found = made.redistribute(placements=after)
                expected = dt.distribute_tensor(whole, mesh, after)
                self.assertTrue(torch.equal(found.to_local(), expected.to_local()), f"{before} {after}")

    @on_ranks()
    def test_gradients(self):
        mesh = mesh_of(2)
        weights = numbers(4, 6)
        for before, after in itertools.product((Replicate(), Shard(0), Shard(1), Partial()),
                                               (Replicate(), Shard(0), Shard(1))):
            leaf = dt.distribute_tensor(numbers(4, 6), mesh, [before]).requires_grad_()
            spread = dt.distribute_tensor(weights, mesh, [after])
            (leaf.redistribute(placements=[after]) * spread).sum().backward()
            self.assertTrue(torch.equal(leaf.grad.full_tensor(), weights), f"{before} {after}")

    @on_ranks(4)
    def test_parts_of_parts(self):
        """Parts as fully_shard makes them of tensor-parallel parameters."""
        mesh = mesh_of(2, 2)
        for rows in (8, 6, 5):
            whole = numbers(rows, 3)
            placements = [types._StridedShard(0, split_factor=2), Shard(0)]
            made = dt.distribute_tensor(whole, mesh, placements)
            a, b = mesh.get_coordinate()
            expected = Shard(0)._select_split_tensor(Shard(0)._select_split_tensor(whole, 2, b), 2, a)
            self.assertTrue(torch.equal(made.to_local(), expected))
            self.assertTrue(torch.equal(made.full_tensor(), whole))
            back = dt.distribute_tensor(whole, mesh, [Replicate(), Shard(0)]).redistribute(placements=placements)
            self.assertTrue(torch.equal(back.to_local(), expected))
            squared = (made * made).sum()
            self.assertEqual(squared.item(), (whole * whole).sum().item())
        norm = torch.linalg.vector_norm(made)
        self.assertAlmostEqual(norm.item(), torch.linalg.vector_norm(whole).item(), places=12)

    @on_ranks()
    def test_dtypes(self):
        mesh = mesh_of(2)
        leaf = dt.distribute_tensor(numbers(4), mesh, [Shard(0)]).requires_grad_()
        found = leaf.redistribute(placements=[Replicate()], forward_dtype=torch.float32)
        self.assertEqual(found.dtype, torch.float32)
        found.sum().backward()
        self.assertEqual((leaf.grad.dtype, leaf.grad.placements), (torch.float64, (Shard(0),)))


class Using(unittest.TestCase):
    """Modules, optimizers, files."""

    @on_ranks()
    def test_parameters(self):
        mesh = mesh_of(2)
        parameter = torch.nn.Parameter(dt.distribute_tensor(numbers(4, 3), mesh, [Shard(0)]))
        self.assertIsInstance(parameter, torch.nn.Parameter)
        self.assertIsInstance(parameter, dt.DTensor)
        copied = copy.deepcopy(parameter)
        self.assertIsInstance(copied, torch.nn.Parameter)
        self.assertTrue(torch.equal(copied, parameter) and copied.placements == parameter.placements)
        self.assertIn("placements=(Shard(dim=0),)", repr(parameter))
        self.assertEqual(parameter.data.placements, (Shard(0),))

    @on_ranks()
    def test_state(self):
        mesh = mesh_of(2)

        def rows(name, module, mesh):
            for key, one in list(module._parameters.items()):
                module.register_parameter(key, torch.nn.Parameter(dt.distribute_tensor(one, mesh, [Shard(0)])))

        made = dt.distribute_module(torch.nn.Linear(4, 6), mesh, rows)
        state = made.state_dict()
        self.assertEqual({key: one.placements for key, one in state.items()},
                         {"weight": (Shard(0),), "bias": (Shard(0),)})
        other = dt.distribute_module(torch.nn.Linear(4, 6), mesh, rows)
        other.load_state_dict(state)
        self.assertTrue(torch.equal(other.weight, made.weight))
        self.assertFalse(torch.equal(other.weight, made.weight + 1))

    def test_files(self):
        def saved():
            mesh = mesh_of(1)
            made = torch.nn.Parameter(dt.distribute_tensor(numbers(4, 3), mesh, [Shard(0)]))
            file = io.BytesIO()
            torch.save({"whole": made.detach(), "parameter": made}, file)
            file.seek(0)
            found = torch.load(file, weights_only=False)
            self.assertTrue(torch.equal(found["whole"].to_local(), made.to_local()))
            self.assertEqual(found["whole"].placements, (Shard(0),))
            self.assertTrue(found["parameter"].requires_grad)
            again = pickle.loads(pickle.dumps(made.detach()))
            self.assertEqual((again.placements, tuple(again.shape)), ((Shard(0),), (4, 3)))

        run_ranks(1, saved)

    @on_ranks()
    def test_optimizers(self):
        mesh = mesh_of(2)
        for make in (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
            lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
            lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
            lambda p: torch.optim.Adagrad(p, lr=0.1),
        ):
            wholes = [numbers(5, 4).requires_grad_(), numbers(3).requires_grad_()]
            parts = [dt.distribute_tensor(one.detach(), mesh, [placed]).requires_grad_()
                     for one, placed in zip(wholes, (Shard(0), Replicate()))]
            steps = [make(wholes), make(parts)]
            for _ in range(3):
                for several, optimizer in zip((wholes, parts), steps):
                    (several[0] ** 3).sum().add((several[1] ** 2).sum()).backward()
                    norm = torch.nn.utils.clip_grad_norm_(several, 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            for whole, part in zip(wholes, parts):
                self.assertTrue(torch.allclose(part.full_tensor(), whole, rtol=1e-10), str(steps[0]))
            self.assertTrue(norm.placements == (Replicate(),))

    @on_ranks()
    def test_checkpoint(self):
        mesh = mesh_of(2)
        whole = numbers(4, 4).div(16).requires_grad_()
        leaf = dt.distribute_tensor(whole.detach(), mesh, [Shard(0)]).requires_grad_()

        def layer(x):
            return (x @ x).relu().sum()

        layer(whole).backward()
        torch.utils.checkpoint.checkpoint(layer, leaf, use_reentrant=False).backward()
        self.assertTrue(torch.allclose(leaf.grad.full_tensor(), whole.grad))

    @on_ranks()
    def test_local_map(self):
        experimental = importlib.import_module(f"{torch.__name__}.distributed.tensor.experimental")
        mesh = mesh_of(2)

        @experimental.local_map(out_placements=[Partial()], in_placements=([Shard(1)], [Shard(0)]),
                                redistribute_inputs=True)
        def product(a, b):
            return a @ b

        a, b = numbers(2, 4), numbers(4, 3)
        found = product(dt.distribute_tensor(a, mesh, [Replicate()]), dt.distribute_tensor(b, mesh, [Shard(0)]))
        self.assertTrue(torch.equal(found.full_tensor(), a @ b))

    @on_ranks()
    def test_register_sharding(self):
        experimental = importlib.import_module(f"{torch.__name__}.distributed.tensor.experimental")
        mesh = mesh_of(2)

        @experimental.register_sharding(torch.ops.aten.channel_shuffle.default)
        def shuffled(x, groups):
            return [([Replicate()], [Replicate(), None]), ([Shard(0)], [Shard(0), None])]

        made = dt.distribute_tensor(numbers(4, 4, 2, 2), mesh, [Shard(0)])
        found = torch.channel_shuffle(made, 2)
        self.assertEqual(found.placements, (Shard(0),))
        self.assertTrue(torch.equal(found.full_tensor(), torch.channel_shuffle(numbers(4, 4, 2, 2), 2)))

    @on_ranks()
    def test_modes_see_parts(self):
        mesh = mesh_of(2)
        made = dt.distribute_tensor(numbers(4, 3), mesh, [Shard(0)])
        with debug.CommDebugMode() as counted:
            made.sum().redistribute(placements=[Replicate()])
            made.redistribute(placements=[Replicate()])
        names = {str(one).rpartition(".")[2]: count for one, count in counted.get_comm_counts().items()}
        self.assertEqual(names, {"all_reduce": 1, "all_gather_into_tensor": 1})
        self.assertEqual(counted.get_total_counts(), 2)
        self.assertIn("all_reduce: 1", counted.generate_comm_debug_tracing_table())


class Programs(unittest.TestCase):
    """Random programs of operators, on distributed tensors and on whole ones."""

    @on_ranks(4)
    def test_random_programs(self):
        mesh = mesh_of(2, 2)
        for seed in range(12):
            self.assertIsNone(random_program(seed, mesh), f"seed {seed}")


STEPS = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a @ b, lambda a, b: a.t(), lambda a, b: a.tanh(),
    lambda a, b: torch.cat([a, b])[:6], lambda a, b: a - b.mean(0), lambda a, b: a.softmax(1) + b,
    lambda a, b: a / (1 + b.abs()), lambda a, b: a.view(2, 3, 6).transpose(0, 1).reshape(6, 6),
    lambda a, b: a * b.sum(1, keepdim=True), lambda a, b: torch.where(a > 0, a, b), lambda a, b: a.roll(1, 0) + a,
    lambda a, b: torch.nn.functional.layer_norm(a, [6]), lambda a, b: a.sum(0).expand(6, 6) * 0.1 + b,
    lambda a, b: a[torch.tensor([5, 3, 1, 0, 2, 4])] if type(a) is torch.Tensor else a.index_select(
        0, dt.distribute_tensor(torch.tensor([5, 3, 1, 0, 2, 4]), a.device_mesh, [Replicate()] * 2)),
]


def random_program(seed, mesh):
    """What differs between a program on distributed tensors and on whole ones; None where nothing does."""
    generator = torch.Generator().manual_seed(seed)

    def draw(count):
        return int(torch.randint(count, (), generator=generator))

    wholes = [torch.randn(6, 6, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(3)]
    choices = [Replicate(), Shard(0), Shard(1)]
    parts = [
        dt.distribute_tensor(one.detach(), mesh, [choices[draw(3)], choices[draw(3)]]).requires_grad_()
        for one in wholes]
    expected, found = list(wholes), list(parts)
    for step in range(6):
        function, i, j = STEPS[draw(len(STEPS))], draw(len(found)), draw(len(found))
        expected.append(function(expected[i], expected[j]))
        found.append(function(found[i], found[j]))
        if not torch.allclose(found[-1].full_tensor(), expected[-1], rtol=1e-9, atol=1e-9):
            return f"step {step}: {found[-1].placements}"
    (expected[-1] * expected[-2]).sum().backward()
    (found[-1] * found[-2]).sum().full_tensor().backward()
    for whole, part in zip(wholes, parts):
        if (whole.grad is None) != (part.grad is None):
            return "a gradient is missing"
        if whole.grad is not None and not torch.allclose(part.grad.full_tensor(), whole.grad, rtol=1e-8, atol=1e-8):
            return "a gradient"
    return None


if __name__ == "__main__":
    unittest.main()
