"""Memory of compiled functions: what only backward passes read is computed again, and nobody can tell by results."""

import threading
import unittest

from module_under_test import torch

nn, functional = torch.nn, torch.nn.functional
HAS_EVENTS = hasattr(torch._C, "_cpu_watchMemory")


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256), nn.SiLU(),
                         nn.Linear(256, 8))


def batch():
    return torch.randn(128, 64, generator=torch.Generator().manual_seed(1))


def peak(call):
    """The most bytes in a call, besides those before it."""
    before = torch._C._cpu_memoryStats()["allocated_bytes.all.current"]
    torch._C._cpu_watchMemory(1 << 16)
    call()
    events, _ = torch._C._cpu_takeMemoryEvents()
    torch._C._cpu_watchMemory(0)
    return max(event[3] for event in events) - before


class Steps(unittest.TestCase):
    """Each test makes the same steps with a function and with the compiled one."""

    def check(self, body, times=3):
        """``body(function of a module, module, batch)`` gives tensors."""
        for _ in range(times):
            found = []
            for compiled in (False, True):
                model = network()
                function = torch.compile(model, fullgraph=True) if compiled else model
                for _ in range(2):
                    results = body(function, model, batch())
                gradients = [parameter.grad for parameter in model.parameters()]
                found.append([*results, *(gradient for gradient in gradients if gradient is not None)])
            self.assertEqual(len(found[0]), len(found[1]))
            for eager, ran in zip(*found):
                self.assertTrue(torch.equal(eager, ran))

    def test_gradients(self):
        def body(function, model, x):
            out = function(x)
            out.square().sum().backward()
            return [out]

        self.check(body)

    def test_gradients_of_inputs_and_twice(self):
        def body(function, model, x):
            x.requires_grad_()
            out = function(x)
            first, = torch.autograd.grad(out.square().sum(), x, create_graph=True)
            second, = torch.autograd.grad(first.square().sum(), x, retain_graph=True)
            again, = torch.autograd.grad(first.square().sum(), x)
            return [out, first, second, again]

        self.check(body)

    def test_graphs_that_are_kept(self):
        def body(function, model, x):
            loss = function(x).square().sum()
            loss.backward(retain_graph=True)
            loss.backward()
            return [loss]

        self.check(body)

    def test_parameters_change_before_the_pass(self):
        def body(function, model, x):
            loss = function(x).square().sum()
            # Saved values are those from before, though nobody has computed some of them yet.
            model[2].weight.data.mul_(3)
            model[2].bias.data.add_(1)
            loss.backward()
            return [loss]

        self.check(body)

    def test_optimizers(self):
        def body(function, model, x):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            losses = []
            for _ in range(3):
                optimizer.zero_grad()
                losses.append(function(x).square().mean())
                losses[-1].backward()
                optimizer.step()
            return [*losses, *model.parameters()]

        self.check(body)

    def test_kept_by_hooks(self):
        def body(function, model, x):
            seen = []
            handle = model[1].register_forward_hook(lambda module, args, out: seen.append(out))
            loss = function(x).square().sum()
            handle.remove()
            before = seen[0].detach().clone()
            loss.backward()
            return [before, *seen]

        self.check(body)

    def test_other_threads(self):
        def body(function, model, x):
            loss = function(x).square().sum()
            thread = threading.Thread(target=loss.backward)
            thread.start()
            thread.join()
            return [loss]

        self.check(body)

    def test_passes_that_never_come(self):
        def body(function, model, x):
            return [function(x)]

        self.check(body)

    @unittest.skipUnless(HAS_EVENTS, "this module does not tell about host memory")
    def test_steps_need_less_memory(self):
        model, x = network(), batch()
        needed = []
        for function in (model, torch.compile(model, fullgraph=True)):
            def step():
                function(x).square().sum().backward()

            for _ in range(3):
                step()
            needed.append(peak(step))
        self.assertLess(needed[1], 0.9 * needed[0])

    @unittest.skipUnless(HAS_EVENTS, "this module does not tell about host memory")
    def test_chains_need_one_buffer(self):
        x = torch.randn(1 << 16)
        compiled = torch.compile(lambda x: x.mul(2).exp().cumsum(0).neg().exp().cumsum(0), fullgraph=True)
        with torch.no_grad():
            for _ in range(3):
                compiled(x)
            self.assertLessEqual(peak(lambda: compiled(x)), 2 * x.nbytes + 4096)


class Freezing(unittest.TestCase):
    """Batch normalisation in evaluation mode goes into the weights where that was asked for."""

    def setUp(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8))
        for norm in (self.model[1], self.model[4]):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        self.model.eval()
        self.x = torch.randn(2, 3, 16, 16)
        self.frozen = torch.compile(self.model, fullgraph=True, options={"freezing": True})

    def check(self, function=None):
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close((function or self.frozen)(self.x), self.model(self.x))

    def test_results(self):
        self.check()
        plain = torch.compile(self.model, fullgraph=True)
        with torch.no_grad():
            self.assertTrue(torch.equal(plain(self.x), self.model(self.x)))

    def test_weights_that_change(self):
        self.check()
        with torch.no_grad():
            for change in (
                lambda: self.model[0].weight.mul_(2), lambda: self.model[0].bias.data.add_(1),
                lambda: self.model[4].running_var.fill_(3), lambda: self.model[1].weight.neg_(),
                lambda: self.model[3].weight.numpy().fill(0.5), lambda: self.model[3].weight.numpy().fill(0.25),
                lambda: self.model[1].load_state_dict(nn.BatchNorm2d(8).state_dict()),
            ):
                change()
                self.check()

    def test_training(self):
        self.check()
        self.model.train()
        self.frozen(self.x).sum().backward()
        torch.optim.SGD(self.model.parameters(), lr=0.1).step()
        self.model.eval()
        self.check()

    def test_inputs_written_meanwhile(self):
        def function(x):
            y = self.model[0](x)
            x.mul_(2)
            return self.model[1](y) + x.sum()

        compiled = torch.compile(function, fullgraph=True, options={"freezing": True})
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(compiled(self.x.clone()), function(self.x.clone()))


if __name__ == "__main__":
    unittest.main()
