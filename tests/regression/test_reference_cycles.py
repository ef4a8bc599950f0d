"""Nothing is kept for ever: what only cycles keep is collected, and loops leave nothing behind."""

import copy
import functools
import gc
import io
import itertools
import os
import pickle
import threading
import unittest
import weakref

import numpy as np
from module_under_test import SANITIZED, torch

if torch.__name__ == "torch":
    import torch.func
    import torch.utils.checkpoint
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
else:
    from corten.overrides import TorchFunctionMode
    from corten.utils._python_dispatch import TorchDispatchMode

nn, Function = torch.nn, torch.autograd.Function
once_differentiable = torch.autograd.function.once_differentiable
checkpoint = torch.utils.checkpoint.checkpoint

SIZE = 1 << 13
REPEATS = 200
PAGE = os.sysconf("SC_PAGE_SIZE")


def setUpModule():
    """What there is already is not looked through at every collection."""
    gc.collect()
    gc.freeze()


def tearDownModule():
    gc.unfreeze()


def leaf():
    return torch.ones(SIZE, requires_grad=True)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


class Result(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.square()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result


class Everything(Function):
    @staticmethod
    def forward(ctx, x, y):
        between = x * y
        result, places = between.square(), between.argmax()
        ctx.save_for_backward(x, y, between, result)
        ctx.mark_non_differentiable(places)
        ctx.set_materialize_grads(False)
        ctx.shape = x.shape
        return result, places

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        x, y, _, result = ctx.saved_tensors
        return grad * result * y, grad * result * x


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + 0 * ctx.saved_tensors[0]


class Attribute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.y = x, x.square()
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.y


class Identical(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad + 0 * ctx.saved_tensors[0]


class Apart(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.square()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * ctx.saved_tensors[0]


class Cycles(unittest.TestCase):
    """Each function makes garbage that only the collector can free, and gives what must die."""

    def check(self, *functions):
        for function in functions:
            with self.subTest(function.__name__):
                references = [weakref.ref(one) for _ in range(3) for one in function()]
                gc.collect()
                alive = [reference() for reference in references if reference() is not None]
                self.assertEqual(len(alive), 0)

    def test_contexts(self):
        def result():
            y = Result.apply(leaf())
            return y, y.grad_fn

        def attribute():
            y = Attribute.apply(leaf())
            return y, y.grad_fn

        def identical():
            x = leaf()
            y = Identical.apply(x)
            return x, y

        def output_after_the_call():
            y = Result.apply(leaf())
            y.grad_fn.y = y
            return y, y.grad_fn

        def context_of_itself():
            y = Result.apply(leaf())
            y.grad_fn.node = y.grad_fn
            return y, y.grad_fn

        def dirty():
            y = Dirty.apply(leaf().clone())
            return y, y.grad_fn

        def everything():
            x, y = leaf(), leaf()
            out, places = Everything.apply(x, y)
            x.out = out
            return (places, out.grad_fn) if torch.__name__ == "torch" else (x, y, out, places)

        def apart():
            y = Apart.apply(leaf())
            y.note = [y]
            return y, y.grad_fn

        def failed():
            class Fails(Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    ctx.itself = ctx
                    contexts.append(weakref.ref(ctx))
                    raise ValueError

            contexts, x = [], leaf()
            try:
                Fails.apply(x)
            except ValueError:
                pass
            return x, contexts[0]() or x, Fails

        def of_a_local_class():
            class Local(Result):
                pass

            y = Local.apply(leaf())
            return y, Local

        def context_with_a_hook():
            y = Result.apply(leaf())
            node = y.grad_fn
            node.register_hook(lambda *grads: node and None)
            return (y,)

        self.check(result, attribute, identical, output_after_the_call, context_of_itself, dirty,
                   apart, failed, of_a_local_class, context_with_a_hook)
        if torch.__name__ != "torch":
            self.check(everything)

    def test_attributes(self):
        def itself():
            x = leaf()
            x.itself = x
            return (x,)

        def closure():
            x = leaf()
            x.function = lambda: x
            return (x,)

        def several():
            x, y = leaf(), torch.ones(2)
            x.other, y.other = y, [x]
            return x, y

        def subclass():
            class Own(torch.Tensor):
                pass

            x = torch.ones(SIZE).as_subclass(Own)
            x.itself = x
            return x, Own

        def parameter():
            x = nn.Parameter(torch.ones(SIZE))
            x.owner = {"x": x}
            return (x,)

        def storage():
            x = leaf()
            x.storage = x.untyped_storage()
            x.storage.tensor = x
            return (x,)

        def generator():
            x, generator = leaf(), torch.Generator()
            x.generator = generator
            x.itself = x
            return (x,)

        def partial():
            x = leaf()
            x.function = functools.partial(torch.add, x)
            return (x,)

        def method():
            x = leaf()
            x.function = x.sum
            return (x,)

        self.check(itself, closure, several, subclass, parameter, generator, partial,
                   method)
        if torch.__name__ != "torch":
            self.check(storage)

    def test_hooks_of_leaves(self):
        def captures_itself():
            x = leaf()
            x.register_hook(lambda grad: x.sum())
            return (x,)

        def one_of_many():
            x = leaf()
            handles = [x.register_hook(lambda grad: (x, k) and None) for k in range(3)]
            handles[1].remove()
            x.handles = handles
            return (x,)

        self.check(captures_itself, one_of_many)

    def test_modules(self):
        def linear():
            return nn.Linear(8, 8)

        def holds_itself():
            module = linear()
            module.itself = [module]
            return module, module.weight

        def every_hook():
            module = linear()
            module.register_forward_hook(lambda *args: module and None)
            module.register_forward_pre_hook(lambda *args: module and None)
            module.register_full_backward_hook(lambda *args: module and None)
            module.register_full_backward_pre_hook(lambda *args: module and None)
            module.register_state_dict_pre_hook(lambda *args: module and None)
            module._register_load_state_dict_pre_hook(lambda *args: module and None)
            module.register_load_state_dict_post_hook(lambda *args: module and None)
            return module, module.weight

        def own_class():
            class Own(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = nn.Sequential(linear(), nn.ReLU())
                    self.call = self.forward

                def forward(self, x):
                    return self.inner(x)

            module = Own()
            module(torch.ones(1, 8)).sum().backward()
            return module, module.inner[0].weight, Own

        self.check(holds_itself, every_hook, own_class)

    @unittest.skipIf(torch.__name__ == "torch", "PyTorch does not look behind nodes")
    def test_graphs(self):
        def result_of_itself():
            x = leaf()
            x.y = x * 2
            return x, x.y

        def used_twice():
            x = leaf()
            x.y = x * x + x
            return x, x.y

        def chain():
            x = y = leaf()
            for _ in range(10):
                y = (y * 2).sin()
            x.y = y
            return x, y

        def view():
            x = leaf()
            x.v = x.view(-1)
            return x, x.v

        def plain_view():
            x = torch.ones(SIZE)
            x.v = x[2:]
            return x, x.v

        def gradient():
            x = leaf()
            x.grad = torch.ones(SIZE)
            x.grad.x = x
            return x, x.grad

        def retained():
            x = leaf()
            y = x * 2
            y.retain_grad()
            y.sum().backward()
            y.grad.y = y
            return y, y.grad

        def in_place():
            x = torch.ones(SIZE)
            y = leaf()
            x[2:].mul_(y[2:])
            y.x = x
            return x, y

        def list_of_tensors():
            x = leaf()
            x.y = torch.cat([x, x])
            return x, x.y

        def metadata():
            y = leaf() * 2
            y.grad_fn.metadata["y"] = y
            return (y,)

        def output_saved():
            x = leaf()
            x.y = x.square()
            return x, x.y

        def tangent():
            x, t = torch.ones(SIZE), torch.ones(SIZE)
            with torch.autograd.forward_ad.dual_level():
                t.dual = torch.autograd.forward_ad.make_dual(x, t)
            return x, t

        self.check(result_of_itself, used_twice, chain, view, plain_view, gradient, retained,
                   in_place, list_of_tensors, metadata, output_saved, tangent)

    @unittest.skipIf(torch.__name__ == "torch", "PyTorch does not look behind nodes")
    def test_hooks_in_graphs(self):
        def result():
            y = leaf() * 2
            y.register_hook(lambda grad: y and None)
            return (y,)

        def later_result():
            x = leaf()
            y = x * 2
            x.register_hook(lambda grad: y and None)
            return x, y

        def inner_result():
            y = leaf() * 2
            y.register_hook(lambda grad: z and None)
            z = (y * y).sum()
            return y, z

        def after_accumulation():
            x = leaf()
            x.register_post_accumulate_grad_hook(lambda x_: x and None)
            return (x,)

        def node():
            y = leaf() * 2
            y.grad_fn.register_hook(lambda *grads: y and None)
            y.grad_fn.register_prehook(lambda *grads: y and None)
            return (y,)

        def next_node():
            y = (leaf() * 2).exp()
            y.grad_fn.next_functions[0][0].register_hook(lambda *grads: y and None)
            return (y,)

        def several_gradients():
            x, y = leaf(), leaf()
            torch.autograd.graph.register_multi_grad_hook([x, y], lambda grads: (x, y) and None)
            return x, y

        def module_with_its_result():
            module = nn.Linear(8, 8)
            module.register_full_backward_hook(lambda *args: module and None)
            module.y = module(torch.ones(1, 8))
            return module, module.y

        def packed():
            box = []
            hooks = (lambda x: (x, box), lambda pair: pair[0])
            with torch.autograd.graph.saved_tensors_hooks(*hooks):
                y = leaf().exp().sin()
            box.append(y)
            return (y,)

        def unpacked():
            box = []
            hooks = (lambda x: x, lambda x: box and x)
            with torch.autograd.graph.saved_tensors_hooks(*hooks):
                y = leaf().exp().sin()
            box.append(y)
            return (y,)

        def recomputed():
            x = leaf()
            x.y = checkpoint(lambda x_: (x, x_.exp().sin())[1], x, use_reentrant=False)
            return x, x.y

        self.check(result, later_result, inner_result, after_accumulation, node, next_node,
                   several_gradients, module_with_its_result, packed, unpacked, recomputed)

    def test_what_is_held_stays(self):
        def graph():
            x, other = leaf(), leaf()
            y = Result.apply(x * 2)
            x.y = y
            x.register_hook(lambda grad: grad + 0 * y)
            kept = (y * other).sum()
            return kept, [weakref.ref(one) for one in (x, y, other, y.grad_fn)]

        kept, references = graph()
        gc.collect()
        self.assertNotIn(None, [reference() for reference in references])
        kept.backward()
        self.assertIsNotNone(references[0]().grad)
        self.assertIsNotNone(references[2]().grad)
        del kept
        gc.collect()
        if torch.__name__ != "torch":
            self.assertEqual([reference() for reference in references], [None] * 4)

    def test_finalizers_see_whole_objects(self):
        seen = []

        class Watch:
            def __init__(self, tensor):
                self.tensor = tensor

            def __del__(self):
                seen.append((self.tensor.sum().item(), self.tensor.grad_fn.name()))

        y = Attribute.apply(leaf())
        y.watch = Watch(y)
        del y
        gc.collect()
        self.assertEqual(seen[0][1], "AttributeBackward")
        self.assertAlmostEqual(seen[0][0] / SIZE, 1)

    def test_revived_by_a_finalizer(self):
        revived = []

        class Watch:
            def __init__(self, tensor):
                self.tensor = tensor

            def __del__(self):
                revived.append(self.tensor)

        y = Result.apply(leaf())
        y.watch = Watch(y)
        del y
        gc.collect()
        gc.collect()
        (y,) = revived
        y.sum().backward()
        self.assertEqual(y.grad_fn.name(), "ResultBackward")

    def test_referents(self):
        y = Attribute.apply(leaf())
        self.assertTrue(any(one is y.grad_fn for one in gc.get_referents(y)))
        x = leaf()

        def hook(grad):
            return None

        x.register_hook(hook)
        if torch.__name__ != "torch":
            self.assertTrue(any(one is hook for one in gc.get_referents(x)))

    def test_collection_beside_backward_passes(self):
        failures = []

        def train():
            try:
                x = torch.ones(1 << 16, requires_grad=True)
                for _ in range(12):
                    y = Attribute.apply(Result.apply(x) * 1e-3)
                    y.register_hook(lambda grad: grad + 0 * y.detach())
                    x.y = y
                    y.sin().sum().backward()
                    x.grad = None
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            gc.collect()
            gc.get_referrers(threads)
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Loops(unittest.TestCase):
    """What a program does again and again takes no more memory each time."""

    def check(self, *functions, repeats=REPEATS):
        for function in functions:
            with self.subTest(function.__name__):
                for _ in range(10):
                    function()
                gc.collect()
                objects, memory = len(gc.get_objects()), resident()
                for count in range(repeats):
                    function()
                    if count % 20 == 0:
                        gc.collect()
                gc.collect()
                self.assertLess(len(gc.get_objects()) - objects, repeats // 4)
                if SANITIZED:  # which keeps freed memory
                    continue
                # One tensor a time would be half as much again.
                self.assertLess(resident() - memory, repeats * SIZE * 4 * 2 // 3)

    def test_functions(self):
        def trained(call):
            def run():
                call(leaf()).sum().backward()

            run.__name__ = call.__name__
            return run

        def result(x):
            return Result.apply(x)

        def dirty(x):
            return Dirty.apply(x.clone())

        def attribute(x):
            return Attribute.apply(x)

        def everything(x):
            return Everything.apply(x, x * 2)[0]

        def identical(x):
            return Identical.apply(x)

        def apart(x):
            return Apart.apply(x)

        def never_run():
            Result.apply(leaf())
            Dirty.apply(leaf().clone())
            Everything.apply(leaf(), leaf())

        def without_gradient():
            with torch.no_grad():
                Result.apply(leaf())
            Attribute.apply(torch.ones(SIZE))

        def second_derivative():
            x = leaf()
            (grad,) = torch.autograd.grad(Result.apply(x).sum(), x, create_graph=True)
            grad.sum().backward()

        def failing():
            class Fails(Result):
                @staticmethod
                def backward(ctx, grad):
                    raise ValueError

            try:
                Fails.apply(leaf()).sum().backward()
            except ValueError:
                pass

        self.check(*map(trained, (result, dirty, attribute, everything, identical, apart)),
                   never_run, without_gradient, second_derivative, failing)

    def test_transforms(self):
        x = torch.linspace(0, 1, 512)

        def derivatives():
            torch.func.grad(lambda x: Apart.apply(x).sum())(x)
            torch.func.vjp(torch.sin, x)[1](x)
            torch.func.jvp(torch.sin, (x,), (x,))
            torch.func.jvp(Apart.apply, (x,), (x,))

        def batches():
            torch.func.vmap(torch.sin)(x.view(8, -1))
            torch.func.vmap(Apart.apply)(x.view(8, -1))

        def jacobians():
            torch.func.jacrev(torch.sin)(x[:8])
            torch.func.jacfwd(torch.sin)(x[:8])
            torch.func.hessian(lambda x: x.sin().sum())(x[:4])

        def functional_call():
            module = nn.Linear(64, 64)
            weights = {name: value.detach() for name, value in module.named_parameters()}
            torch.func.functional_call(module, weights, (x.view(8, 64),))

        def tangents():
            with torch.autograd.forward_ad.dual_level():
                dual = torch.autograd.forward_ad.make_dual(x, x)
                torch.autograd.forward_ad.unpack_dual(dual.sin())

        self.check(derivatives, batches, jacobians, functional_call, tangents)

    def test_hooks(self):
        def registered():
            x = leaf()
            y = x * 2
            x.register_hook(lambda grad: grad * 2)
            x.register_post_accumulate_grad_hook(lambda x: None)
            y.register_hook(lambda grad: grad + 1)
            y.retain_grad()
            y.grad_fn.register_hook(lambda *grads: None)
            y.grad_fn.register_prehook(lambda *grads: None)
            torch.autograd.graph.register_multi_grad_hook([x, y], lambda grads: None)
            y.sum().backward()

        def removed():
            x = leaf()
            for handle in (x.register_hook(lambda grad: x), (x * 2).register_hook(lambda grad: x)):
                handle.remove()

        def global_module_hooks():
            modules = torch.nn.modules.module
            handles = [modules.register_module_forward_hook(lambda *args: None),
                       modules.register_module_forward_pre_hook(lambda *args: None),
                       modules.register_module_full_backward_hook(lambda *args: None)]
            nn.Linear(8, 8)(torch.ones(1, 8)).sum().backward()
            for handle in handles:
                handle.remove()

        self.check(registered, removed, global_module_hooks)

    def test_saved_tensors(self):
        def packed():
            with torch.autograd.graph.saved_tensors_hooks(lambda x: [x], lambda pack: pack[0]):
                y = leaf().square().abs()
            y.sum().backward()

        def on_the_host():
            with torch.autograd.graph.save_on_cpu():
                y = leaf().square().abs()
            y.sum().backward()

        def failing():
            def pack(x):
                raise ValueError

            try:
                with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                    leaf().exp()
            except ValueError:
                pass

        def checkpoints():
            for reentrant in (True, False):
                checkpoint(lambda x: x.square().abs(), leaf(), use_reentrant=reentrant).sum().backward()
            checkpoint(lambda x: x.square().abs(), leaf(), use_reentrant=False)

        def sequence():
            layers = [nn.ReLU(), nn.ReLU()]
            x = leaf()
            torch.utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False)

        self.check(packed, on_the_host, failing, checkpoints, sequence)

    def test_modes(self):
        class Calls(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))

        class Operators(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.last = (function, args)
                return function(*args, **(kwargs or {}))

        def functions():
            with Calls() as mode:
                mode.y = leaf() * 2

        def operators():
            with Operators() as mode:
                mode.y = leaf() * 2
                mode.y.sum().backward()

        def failing():
            try:
                with Calls(), Operators():
                    torch.ones(2) @ torch.ones(3)
            except RuntimeError:
                pass

        def gradients():
            with torch.no_grad(), torch.inference_mode():
                torch.ones(SIZE) * 2
            torch.no_grad()(lambda: leaf() * 2)()
            with torch.autograd.set_detect_anomaly(True, check_nan=False):
                (leaf() * 2).sum().backward()

        def casts():
            with torch.autocast("cpu", torch.bfloat16):
                x = torch.ones(32, 32, requires_grad=True)
                (x @ x).sum().backward()

        self.check(functions, operators, failing, gradients, casts)

    def test_training(self):
        def optimizers():
            for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"):
                x = leaf()
                optimizer = getattr(torch.optim, name)([x], lr=0.1)
                optimizer.register_step_post_hook(lambda *args: optimizer and None)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
                torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)
                x.sum().backward()
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                pickle.loads(pickle.dumps(optimizer.state_dict()))

        def modules():
            module = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Dropout(), nn.GELU())
            module[0].register_forward_hook(lambda *args: None)
            module[0].register_full_backward_hook(lambda *args: None)
            module(torch.ones(4, 64)).sum().backward()
            copy.deepcopy(module)
            module.load_state_dict(module.state_dict())
            nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

        def recurrent():
            nn.LSTM(8, 8)(torch.ones(4, 2, 8))[0].sum().backward()

        self.check(optimizers, modules, recurrent, repeats=40)

    def test_data(self):
        def loader():
            data = torch.utils.data.TensorDataset(torch.ones(8, SIZE))
            for _ in torch.utils.data.DataLoader(data, batch_size=2, shuffle=True):
                pass
            next(iter(torch.utils.data.DataLoader(data)))

        def samplers():
            generator = torch.Generator().manual_seed(0)
            list(torch.utils.data.RandomSampler(range(4), generator=generator))
            torch.rand(SIZE, generator=generator)
            generator.set_state(generator.get_state())

        def files():
            buffer = io.BytesIO()
            torch.save({"x": torch.ones(SIZE)}, buffer)
            buffer.seek(0)
            torch.load(buffer)

        self.check(loader, samplers, files, repeats=40)

    def test_memory(self):
        def storages():
            x = torch.ones(SIZE)
            storage = x.untyped_storage()
            storage.clone().resize_(16)
            torch.empty(0).set_(storage)
            x.data = torch.ones(SIZE)
            x.untyped_storage().resize_(0)

        def exchange():
            x = torch.ones(SIZE)
            torch.from_numpy(x.numpy())
            torch.from_dlpack(x)
            torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
            torch.frombuffer(bytearray(SIZE), dtype=torch.uint8)
            torch.utils.dlpack.to_dlpack(x)
            memoryview(x.numpy())

        def iterators():
            list(torch.ones(64, 8))
            next(iter(torch.ones(64, 8)))
            torch.ones(2, 3).shape, list(torch.ones(2).split(1)), torch.ones(3, 2).max(0)

        def copies():
            x = leaf()
            x.note = [x]
            copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))

        def errors():
            for wrong in (lambda: torch.ones(2) + torch.ones(3), lambda: torch.ones(2).view(3),
                          lambda: torch.add("x", 1), lambda: torch.ones(2)[5],
                          lambda: leaf().sum().backward(torch.ones(3))):
                try:
                    wrong()
                except (RuntimeError, TypeError, IndexError):
                    pass

        self.check(storages, exchange, iterators, copies, errors)

    def test_own_operators(self):
        numbers = itertools.count()

        def defined():
            big = np.ones(SIZE, dtype=np.float32)

            @torch.library.custom_op(f"garbage::operator{next(numbers)}", mutates_args=())
            def operator(x: torch.Tensor) -> torch.Tensor:
                return x * float(big[0])

            operator.register_autograd(lambda ctx, grad: grad)
            operator(leaf()).sum().backward()

        operator = torch.library.custom_op(
            "garbage::sine", lambda x: x.sin(), mutates_args=(), schema="(Tensor x) -> Tensor")
        operator.register_autograd(
            lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output))

        def called():
            operator(leaf()).sum().backward()
            operator(leaf())

        definitions = torch.library.Library("garbage", "FRAGMENT")
        definitions.define("twice(Tensor x) -> Tensor")

        def registered():
            big = np.ones(SIZE, dtype=np.float32)
            library = torch.library.Library("garbage", "IMPL")
            library.impl("twice", lambda x: x * float(big[0]), "CPU")
            torch.ops.garbage.twice(torch.ones(2))
            library._destroy()

        self.check(called, registered)
        defined()


if __name__ == "__main__":
    unittest.main()
