"""Programs as graphs: traces, generated code, changes of graphs."""

import copy
import importlib
import io
import math
import operator
import pickle
import textwrap
import unittest

from module_under_test import torch

fx = importlib.import_module(f"{torch.__name__}.fx")
shape_prop = importlib.import_module(f"{torch.__name__}.fx.passes.shape_prop")
split_module = importlib.import_module(f"{torch.__name__}.fx.passes.split_module").split_module
pass_base = importlib.import_module(f"{torch.__name__}.fx.passes.infra.pass_base")
pass_manager = importlib.import_module(f"{torch.__name__}.fx.passes.infra.pass_manager")
optimization = importlib.import_module(f"{torch.__name__}.fx.experimental.optimization")
nn, F = torch.nn, torch.nn.functional


@fx.wrap
def scaled(x, factor):
    """Not looked into."""
    if x.sum() > 0:
        return x * factor
    return x


fx.wrap("len")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, 4))
        self.linear = nn.Linear(4, 5)
        self.layers = nn.Sequential(nn.Linear(5, 3), nn.ReLU())

    def forward(self, x, y=None, *, scale=2):
        h = self.linear(x + self.weight).relu()
        h = F.dropout(h, 0.5, self.training) + F.softmax(h, dim=-1)
        best = torch.topk(torch.sum(self.layers(h), dim=-1), 3)
        return {"best": best, "rest": [h[:, 1:], h.shape[0], -h**2 / scale]}


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())


def body(code):
    """The lines of generated code, without the blank ones around them."""
    return textwrap.dedent(code).strip()


class Traces(unittest.TestCase):
    def test_code(self):
        made = fx.symbolic_trace(Net().eval())
        self.assertEqual(body(made.code), textwrap.dedent("""\
            def forward(self, x, y = None, scale = 2):
                weight = self.weight
                add = x + weight;  x = weight = None
                linear = self.linear(add);  add = None
                relu = linear.relu();  linear = None
                dropout = torch.nn.functional.dropout(relu, p = 0.5, training = False, inplace = False)
                softmax = torch.nn.functional.softmax(relu, dim = -1, _stacklevel = 3, dtype = None);  relu = None
                add_1 = dropout + softmax;  dropout = softmax = None
                layers_0 = getattr(self.layers, "0")(add_1)
                layers_1 = getattr(self.layers, "1")(layers_0);  layers_0 = None
                sum_1 = torch.sum(layers_1, dim = -1);  layers_1 = None
                topk = torch.topk(sum_1, 3);  sum_1 = None
                getitem = add_1[(slice(None, None, None), slice(1, None, None))]
                getattr_1 = add_1.shape
                getitem_1 = getattr_1[0];  getattr_1 = None
                pow_1 = add_1 ** 2;  add_1 = None
                neg = -pow_1;  pow_1 = None
                truediv = neg / scale;  neg = scale = None
                return {'best': topk, 'rest': [getitem, getitem_1, truediv]}"""))
        self.assertEqual(type(made).__name__, "Net")
        self.assertEqual([name for name, _ in made.named_modules()], ["", "linear", "layers", "layers.0", "layers.1"])

    def test_the_same_values(self):
        net = Net().eval()
        x = torch.arange(20.0).view(5, 4)
        mine, theirs = fx.symbolic_trace(net)(x, scale=3), net(x, scale=3)
        self.assertEqual(mine["best"].values.tolist(), theirs["best"].values.tolist())
        self.assertEqual(mine["rest"][2].tolist(), theirs["rest"][2].tolist())
        mine["best"].values.sum().backward()
        self.assertIsNotNone(net.weight.grad)

    def test_graph_text(self):
        def program(a: torch.Tensor, b: int = 2, *rest, **named):
            c = torch.add(a, b, alpha=2)
            return [c.view(c.size(0), -1), F.linear(a, c), torch.float32, 1.5]

        self.assertEqual(str(fx.symbolic_trace(program).graph), textwrap.dedent("""\
            graph():
                %a : torch.Tensor [num_users=2] = placeholder[target=a]
                %b : int [num_users=1] = placeholder[target=b](default=2)
                %_rest : [num_users=0] = placeholder[target=*rest]
                %_named : [num_users=0] = placeholder[target=**named]
                %add : [num_users=3] = call_function[target=torch.add](args = (%a, %b), kwargs = {alpha: 2})
                %size : [num_users=1] = call_method[target=size](args = (%add, 0), kwargs = {})
                %view : [num_users=1] = call_method[target=view](args = (%add, %size, -1), kwargs = {})
                %linear : [num_users=1] = call_function[target=torch._C._nn.linear](args = (%a, %add), kwargs = {})
                return [view, linear, torch.float32, 1.5]"""))

    def test_what_cannot_be_traced(self):
        def refused(error, pattern, program):
            with self.assertRaisesRegex(error, pattern):
                fx.symbolic_trace(program)

        refused(fx.proxy.TraceError, "cannot be used as inputs to control flow", lambda x: x if x.sum() else -x)
        refused(fx.proxy.TraceError, "cannot be iterated", lambda x: [y for y in x])
        refused(TypeError, "not 'Proxy'", lambda x: int(x))
        refused(TypeError, "does not support item assignment", lambda x: operator.setitem(x, 0, 1))
        refused(NotImplementedError, "argument of type", lambda x: x + object())
        self.assertFalse(hasattr(nn.functional.relu, "__wrapped__"))
        self.assertEqual(F.relu(torch.tensor([-1.0])).item(), 0)

    def test_wrapped_functions(self):
        made = fx.symbolic_trace(lambda x: scaled(x, 3) * math.sqrt(x.size(0)))
        names = [str(node) for node in made.graph.nodes]
        self.assertEqual(names, ["x", "scaled", "size", "sqrt", "mul", "output"])
        self.assertIn("_symbolic_trace.wrap(", made.code)
        self.assertEqual(made(torch.ones(4)).tolist(), [6] * 4)
        self.assertEqual(fx.symbolic_trace(lambda x: len(x))(torch.ones(3)), 3)
        with self.assertRaisesRegex(NotImplementedError, "top level of a module"):
            fx.wrap("abs")

    def test_unknown_sizes(self):
        made = fx.symbolic_trace(lambda x: x + torch.arange(x.size(-1)) + torch.ones(x.size(0)).unsqueeze(1))
        self.assertEqual(made(torch.zeros(2, 3)).tolist(), [[1, 2, 3]] * 2)
        a, b = fx.symbolic_trace(lambda x: torch.add(*_halves(x)))(torch.ones(4)).tolist()
        self.assertEqual((a, b), (2, 2))

    def test_known_arguments(self):
        def program(x, flag, extra=None):
            return x + 1 if flag else x - 1

        made = fx.symbolic_trace(program, concrete_args={"flag": True, "extra": None})
        self.assertEqual(made(torch.ones(1), True, None).item(), 2)
        with self.assertRaisesRegex(AssertionError, "flag has been specialized to have value True"):
            made(torch.ones(1), False, None)

    def test_tracers(self):
        class Whole(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return module_qualified_name == "layers" or super().is_leaf_module(m, module_qualified_name)

        net = Net()
        graph = Whole().trace(net)
        self.assertEqual(len(graph.find_nodes(op="call_module", target="layers")), 1)
        made = fx.GraphModule(net, graph, "Mine")
        self.assertEqual(type(made).__name__, "Mine")
        self.assertIsInstance(made, fx.GraphModule)


def _halves(x):
    first, second = x.split(2)
    return first, second


class Changes(unittest.TestCase):
    def setUp(self):
        self.made = fx.symbolic_trace(lambda x: torch.relu(x) + torch.neg(x))
        self.nodes = {node.name: node for node in self.made.graph.nodes}
        self.x = torch.tensor([-1.0, 2.0])

    def test_targets(self):
        self.nodes["add"].target = operator.mul
        self.made.recompile()
        self.assertEqual(self.made(self.x).tolist(), [0, -4])
        self.assertIn("add = relu * neg", self.made.code)

    def test_replacing_nodes(self):
        old = self.nodes["neg"]
        with self.made.graph.inserting_after(old):
            new = self.made.graph.call_function(torch.abs, (old.args[0],))
        self.assertEqual(old.replace_all_uses_with(new), [self.nodes["add"]])
        self.assertEqual((list(old.users), list(new.users)), ([], [self.nodes["add"]]))
        self.made.graph.erase_node(old)
        self.made.graph.lint()
        self.made.recompile()
        self.assertEqual((new.name, self.made(self.x).tolist()), ("abs_1", [1, 4]))
        with self.assertRaisesRegex(RuntimeError, "Tried to erase Node x but it still had 2 users"):
            self.made.graph.erase_node(self.nodes["x"])

    def test_arguments(self):
        add = self.nodes["add"]
        self.assertEqual(add.all_input_nodes, [self.nodes["relu"], self.nodes["neg"]])
        add.args = (add.args[0], [1, 2])
        self.assertEqual(list(self.nodes["neg"].users), [])
        with self.assertRaises((NotImplementedError, TypeError)):
            add.args[1].append(3)
        add.update_arg(1, 5)
        add.update_kwarg("alpha", 2)
        self.assertEqual((add.args[1], dict(add.kwargs)), (5, {"alpha": 2}))
        self.assertTrue(self.made.graph.eliminate_dead_code())
        self.assertEqual([node.name for node in self.made.graph.nodes], ["x", "relu", "add", "output"])
        self.assertEqual((add.next.op, add.prev.name, len(self.made.graph.nodes)), ("output", "relu", 4))

    def test_order(self):
        relu, neg = self.nodes["relu"], self.nodes["neg"]
        relu.prepend(neg)
        self.assertEqual([node.name for node in self.made.graph.nodes], ["x", "neg", "relu", "add", "output"])
        self.assertEqual([node.name for node in reversed(self.made.graph.nodes)][0], "output")
        self.nodes["add"].append(neg)
        with self.assertRaisesRegex(RuntimeError, "was used before it has been defined"):
            self.made.graph.lint()

    def test_graphs_by_hand(self):
        graph = fx.Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y", default_value=3)
        product = graph.call_function(operator.mul, (x, y))
        total = graph.call_method("sum", (product,), {"dim": 0})
        inner = graph.call_module("sub.0", (total,))
        graph.output((inner, graph.get_attr("part.weight")))
        made = fx.GraphModule({"sub.0": nn.ReLU(), "part.weight": nn.Parameter(torch.ones(1))}, graph)
        self.assertEqual([value.tolist() for value in made(torch.ones(2))], [6, [1]])
        self.assertEqual([name for name, _ in made.named_parameters()], ["part.weight"])
        with self.assertRaisesRegex(RuntimeError, "referenced target sub.0 but that target was not provided"):
            fx.GraphModule({}, graph)
        copied, values = fx.Graph(), {}
        copied.output(copied.graph_copy(graph, values))
        self.assertEqual(str(copied), str(graph))

    def test_patterns(self):
        found = fx.replace_pattern(self.made, lambda x: torch.relu(x) + torch.neg(x), lambda x: torch.sigmoid(x))
        self.assertEqual((len(found), found[0].anchor.name), (1, "add"))
        self.assertEqual(body(self.made.code).splitlines()[1:], ["    sigmoid = torch.sigmoid(x);  x = None", "    return sigmoid"])

        def program(x, a, b):
            first = torch.cat([torch.neg(a), b]).sum()
            second = torch.cat([torch.neg(a), b]).sum()
            return x + torch.max(first) + torch.max(second)

        made = fx.symbolic_trace(program)
        found = fx.replace_pattern(made, lambda a, b: torch.cat([a, b]).sum(), lambda a, b: torch.stack([a, b]))
        self.assertEqual(len(found), 2)
        names = [node.name for node in made.graph.nodes]
        self.assertEqual(names, ["x", "a", "b", "neg", "neg_1", "stack", "max_1", "add", "stack_1", "max_2", "add_1", "output"])
        self.assertEqual(made(*[torch.ones(2)] * 3).tolist(), [3, 3])
        self.assertEqual(fx.replace_pattern(made, lambda a: torch.exp(a), lambda a: a), [])
        chained = fx.symbolic_trace(lambda x: torch.neg(torch.neg(x)))
        fx.replace_pattern(chained, lambda x: torch.neg(x), lambda x: torch.abs(x) * 2)
        self.assertEqual(chained(self.x).tolist(), [4, 8])


class Runs(unittest.TestCase):
    def setUp(self):
        self.made = fx.symbolic_trace(Pair())

    def test_interpreters(self):
        seen = []

        class Noted(fx.Interpreter):
            def run_node(self, n):
                seen.append((n.op, n.name))
                return super().run_node(n)

            def call_method(self, target, args, kwargs):
                return super().call_method("neg" if target == "relu" else target, args, kwargs)

        got = Noted(self.made).run(torch.ones(1, 2))
        expected = self.made.second(self.made.first(torch.ones(1, 2)).neg())
        self.assertEqual(got.tolist(), expected.tolist())
        self.assertEqual([op for op, _ in seen], ["placeholder", "call_module", "call_method", "call_module", "output"])
        with self.assertRaisesRegex(RuntimeError, "While executing %first"):
            fx.Interpreter(self.made).run(torch.ones(1, 3))

    def test_transformers(self):
        class Negated(fx.Transformer):
            def call_method(self, target, args, kwargs):
                return super().call_method("neg" if target == "relu" else target, args, kwargs)

            def call_module(self, target, args, kwargs):
                return super().call_module(target, args, kwargs) + 1

        made = Negated(self.made).transform()
        self.assertEqual([node.name for node in made.graph.nodes], ["x", "first", "add", "neg", "second", "add_1", "output"])
        self.assertIs(made.first, self.made.first)

    def test_shapes(self):
        shape_prop.ShapeProp(self.made).propagate(torch.ones(3, 2))
        found = {node.name: node.meta["tensor_meta"] for node in self.made.graph.nodes}
        self.assertEqual({tuple(one.shape) for one in found.values()}, {(3, 2)})
        self.assertEqual((found["x"].requires_grad, found["relu"].requires_grad, found["x"].stride), (False, True, (2, 1)))

    def test_copies_and_files(self):
        x = torch.ones(1, 2)
        file = io.BytesIO()
        torch.save(self.made, file)
        file.seek(0)
        copies = [copy.deepcopy(self.made), pickle.loads(pickle.dumps(self.made)), torch.load(file, weights_only=False)]
        for made in copies:
            self.assertEqual(made(x).tolist(), self.made(x).tolist())
            self.assertEqual(made.code, self.made.code)
            self.assertIsNot(made.first.weight, self.made.first.weight)
        self.assertIs(copy.copy(self.made).first.weight, self.made.first.weight)

    def test_modules_below(self):
        self.assertTrue(self.made.add_submodule("a.b", nn.ReLU()))
        self.assertTrue(self.made.delete_submodule("second"))
        self.assertFalse(self.made.delete_submodule("second"))
        self.made.delete_all_unused_submodules()
        self.assertEqual([name for name, _ in self.made.named_modules()], ["", "first"])

    def test_text(self):
        text = str(self.made)
        self.assertTrue(text.startswith("Pair(\n  (first): Linear(in_features=2, out_features=2, bias=True)\n"))
        self.assertIn("print_readable()", text)
        readable = self.made.print_readable(print_output=False)
        self.assertTrue(readable.startswith("class Pair(torch.nn.Module):\n    def forward(self, x):\n"))


class Passes(unittest.TestCase):
    def test_splitting(self):
        net = Net().eval()
        made = fx.symbolic_trace(net)
        parts = {"add": "a", "linear": "a", "relu": "b"}
        names = {}
        split = split_module(made, net, lambda node: parts.get(node.name, "c"), names)
        self.assertEqual(names["submod_a.linear"], "linear")
        self.assertEqual(sorted(name for name, _ in split.named_children()), ["submod_a", "submod_b", "submod_c"])
        self.assertEqual(body(split.submod_a.code).splitlines()[0], "def forward(self, x, weight):")
        with self.assertRaisesRegex(RuntimeError, "cycle"):
            split_module(made, net, lambda node: "b" if node.name == "add_1" else "a")

        def after(node):
            return int(node.name not in ("add", "linear", "relu"))

        split = split_module(made, net, after)
        x = torch.arange(20.0).view(5, 4)
        self.assertEqual(split(x)["rest"][2].tolist(), net(x)["rest"][2].tolist())

    def test_fusing(self):
        net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Dropout(), nn.BatchNorm2d(2)).eval()
        net[1].running_var.fill_(4)
        x = torch.arange(4.0).view(1, 1, 2, 2)
        fused = optimization.fuse(net)
        kinds = [type(fused.get_submodule(node.target)).__name__ for node in fused.graph.nodes if node.op == "call_module"]
        self.assertEqual(kinds, ["Conv2d", "Dropout", "BatchNorm2d"])
        self.assertTrue(torch.allclose(fused(x), net(x)))
        self.assertEqual(len(optimization.remove_dropout(net).graph.find_nodes(op="call_module")), 3)

    def test_managers(self):
        class ToNegative(pass_base.PassBase):
            def call(self, graph_module):
                for node in graph_module.graph.find_nodes(op="call_method", target="relu"):
                    node.target = "neg"
                graph_module.recompile()
                return pass_base.PassResult(graph_module, True)

        def nothing(graph_module):
            return None

        passes = [ToNegative(), pass_manager.pass_result_wrapper(nothing)]
        result = pass_manager.PassManager(passes)(fx.symbolic_trace(Pair()))
        self.assertTrue(result.modified)
        self.assertIn("relu = first.neg()", result.graph_module.code)
        order = pass_manager.this_before_that_pass_constraint(passes[1], passes[0])
        with self.assertRaisesRegex(RuntimeError, "constraint violated"):
            pass_manager.PassManager(passes, [order]).validate_constraints()
        with self.assertRaisesRegex(Exception, "An error occurred when running the 'nothing' pass"):
            pass_manager.PassManager([nothing])(fx.symbolic_trace(Pair()))


if __name__ == "__main__":
    unittest.main()
