"""tests/goldens/semantics/writes.txt: in-place operators and out=."""

import itertools

from semantics import write

A = "a = torch.arange(6.).view(2, 3)"
OUTS = ["torch.empty(0)", "torch.zeros(2, 3)", "torch.zeros(3, 2)", "torch.zeros(6)",
    "torch.zeros(3, 2).t()", "torch.zeros(2, 6)[:, ::2]", "torch.zeros(8)[2:]",
    "torch.zeros(1).expand(2, 3)",
    "torch.zeros(3).expand(2, 3)", "torch.zeros(2, 3, dtype=torch.float64)",
    "torch.zeros(2, 3, dtype=torch.long)", "torch.zeros(2, 3, dtype=torch.bool)",
    "torch.zeros(2, 3, dtype=torch.complex64)", "torch.zeros(2, 3, dtype=torch.float16)",
    "a", "a.t()", "torch.zeros(2, 3, 1)", "torch.zeros(1, 2, 3)", "torch.empty(0, 5)",
    "torch.zeros(2, 3, requires_grad=True)", "None", "torch.zeros(6).as_strided((2, 3), (1, 1))"]
CALLS = ["torch.add(a, 1, out=o)", "torch.add(a, a, out=o)", "torch.div(a, 2, out=o)",
    "torch.eq(a, 2, out=o)", "torch.exp(a * 0, out=o)", "torch.neg(a, out=o)",
    "torch.clamp(a, 1, 3, out=o)", "torch.cat([a[:1], a[1:]], out=o)", "torch.abs(a, out=o)",
    "torch.where(a > 2, a, -a, out=o)", "torch.cumsum(a, 1, out=o)",
    "torch.bitwise_and(a.long(), a.long(), out=o)", "torch.maximum(a, a, out=o)",
    "torch.pow(a, 2, out=o)", "torch.tril(a, out=o)", "torch.isfinite(a, out=o)",
    "torch.logical_not(a, out=o)", "torch.sqrt(a.long() * 0, out=o)"]
REDUCTIONS = ["torch.sum(a, 0, out=o)", "torch.mean(a, 1, out=o)", "torch.amax(a, 0, out=o)",
    "torch.any(a > 1, 0, out=o)", "torch.matmul(a, a.t(), out=o)", "torch.mm(a, a.t(), out=o)",
    "torch.index_select(a, 0, torch.tensor([0, 1]), out=o)",
    "torch.gather(a, 0, torch.zeros(1, 3, dtype=torch.long), out=o)",
    "torch.arange(3, out=o)", "torch.zeros(2, out=o)", "torch.ones(2, 2, out=o)",
    "torch.full((2,), 3., out=o)", "torch.linspace(0, 1, 3, out=o)", "torch.eye(2, out=o)",
    "torch.stack([a, a], out=o)", "torch.nonzero(a, out=o)", "torch.masked_select(a, a > 2, out=o)",
    "torch.take(a, torch.tensor([0, 3]), out=o)", "torch.argmax(a, 0, out=o)",
    "torch.prod(a, 0, out=o)", "torch.norm(a, out=o)"]
SHAPED = ["torch.empty(0)", "torch.zeros(3)", "torch.zeros(2)", "torch.zeros(2, 2)",
    "torch.zeros(2, 2).t()", "torch.zeros(3, dtype=torch.long)",
    "torch.zeros(2, 2, dtype=torch.float64)", "torch.zeros(5)", "torch.empty(0, dtype=torch.long)",
    "torch.zeros(4)[::2]", "torch.empty(0, dtype=torch.bool)"]

IN_PLACE = ["add_(1)", "add_(1.5)", "add_(1j)", "add_(True)", "mul_(2.5)", "div_(2)", "sub_(1)",
    "pow_(2)", "pow_(0.5)", "floor_divide_(2)", "remainder_(2)", "fmod_(2.5)", "eq_(1)", "lt_(1)",
    "neg_()", "abs_()", "sqrt_()", "exp_()", "floor_()", "round_()", "sigmoid_()", "clamp_(0, 1)",
    "clamp_(0.5)", "zero_()",
    "fill_(2.7)", "fill_(1j)", "bitwise_and_(1)", "bitwise_not_()", "logical_not_()",
    "logical_and_(torch.tensor(1.0))", "copy_(torch.tensor(1.7))", "copy_(torch.tensor(1j))",
    "add_(torch.tensor(1.5))", "add_(torch.tensor([1.5]))",
    "add_(torch.tensor(1, dtype=torch.int8))", "add_(torch.ones(1, dtype=torch.float64))",
    "mul_(torch.tensor(1j))", "lerp_(torch.tensor(1.0), 0.5)",
    "addcmul_(torch.tensor(1), torch.tensor(2))", "addcdiv_(torch.tensor(1), torch.tensor(2))",
    "masked_fill_(torch.tensor(True), 1.5)", "add_(1, alpha=1.5)", "sub_(True)",
    "bitwise_left_shift_(1)", "true_divide_(2)", "relu_()", "sgn_()", "reciprocal_()", "cumsum_(0)",
    "clamp_max_(1)", "xlogy_(2)", "atan2_(torch.tensor(1))", "heaviside_(torch.tensor(1))",
    "gcd_(torch.tensor(2))"]
DTYPES = ["bool", "uint8", "int64", "float16", "float32", "complex64"]

SELF = "a = torch.arange(12.)"
OVERLAPS = ["a[1:].add_(a[:-1])", "a[:6].add_(a[6:])", "a[:6].add_(a[:6])", "a.add_(a)",
    "a.view(3, 4).add_(a.view(3, 4))", "a.view(3, 4)[:, :3].add_(a.view(3, 4)[:, 1:])",
    "a[::2].add_(a[1::2])", "a[::2].add_(a[::2])",
    "a.view(3, 4)[:3, :3].add_(a.view(3, 4)[:3, :3].t())",
    "a[:9].view(3, 3).add_(a[:9].view(3, 3).t())",
    "a.copy_(a.flip(0))", "a[1:].copy_(a[:-1])", "a[:-1].copy_(a[1:])",
    "a[:9].view(3, 3).copy_(a[:9].view(3, 3).t())", "torch.add(a[1:], 1, out=a[:-1])",
    "torch.add(a, 1, out=a)", "torch.add(a[:6], a[6:], out=a[3:9])",
    "torch.exp(a[1:] * 0, out=a[1:])", "torch.neg(a[::2], out=a[1::2])",
    "torch.neg(a[::2], out=a[:6])", "torch.cat([a[:6], a[6:]], out=a)",
    "torch.cat([a[:2], a[4:6]], out=a[2:6])",
    "a.expand(2, 12).add_(1)", "a[:1].expand(3).add_(1)", "a[:1].expand(3).copy_(a[:3])",
    "a[:1].expand(3).fill_(1)", "a[:1].expand(3).zero_()", "a[:1].expand(3).mul_(a[:3])",
    "a.as_strided((3, 3), (1, 1)).add_(1)", "a.as_strided((2, 2), (1, 2)).add_(1)",
    "a.as_strided((3, 3), (1, 1)).copy_(a[:9].view(3, 3))",
    "torch.add(a[:3], 1, out=a[:1].expand(3))", "torch.sum(a.view(3, 4), 0, out=a[:4])",
    "torch.sum(a.view(3, 4), 0, out=a[:1].expand(4))",
    "torch.matmul(a[:9].view(3, 3), a[:9].view(3, 3), out=a[:9].view(3, 3))",
    "torch.index_select(a, 0, torch.tensor([1, 0]), out=a[:2])",
    "torch.gather(a, 0, torch.tensor([1, 0]), out=a[:2])", "torch.where(a > 3, a, -a, out=a)",
    "torch.where(a[1:] > 3, a[1:], a[1:], out=a[:-1])",
    "a.scatter_(0, torch.tensor([0, 1]), a[2:4])", "a.index_add_(0, torch.tensor([0, 1]), a[:2])",
    "a.index_copy_(0, torch.tensor([0, 1]), a[1:3])", "a.masked_scatter_(a > 5, a)",
    "a.index_put_((torch.tensor([0]),), a[1])", "a.masked_fill_(a > 3, a[0])",
    "a.cumsum_(0)", "torch.cumsum(a, 0, out=a)", "torch.cumsum(a[1:], 0, out=a[:-1])",
    "a.clamp_(a[0], a[3])", "a.lerp_(a.flip(0), 0.5)", "a.addcmul_(a, a)", "a.addcmul_(a[0], a[1])",
    "a.sub_(a[0])", "a.div_(a[1])", "a[1:].sub_(a[0])", "a.tril_()", "a.view(3, 4).tril_()",
    "a[:1].expand(3, 3).tril_()", "a[:1].expand(3).clamp_(0, 1)", "a[:1].expand(3).exp_()",
    "a[:1].expand(3).uniform_()", "a[:1].expand(3).masked_fill_(torch.tensor(True), 1)",
    "a[:1].expand(3).cumsum_(0)", "a.t_()", "a.resize_(3)"]

SECTIONS = {
    "out= of every kind": ("geometry", [f"{A}; o = {o}; {c}" for o, c in itertools.product(OUTS,
                CALLS)]),
    "values through out=": ("contents", [f"{A}; o = {o}; {c}; o" for o in OUTS[1:10] + ["a"]
            for c in CALLS[:3] + ["torch.sum(a, 0, keepdim=True, out=o)"]]),
    "out= of other shapes": ("geometry", [f"{A}; o = {o}; {c}" for o, c in itertools.product(SHAPED,
                REDUCTIONS)]),
    "out= is what comes back": ("text", [
            f"{A}; o = torch.zeros(2, 3); r = {c}; (r is o, o._version)" for c in CALLS]
        + [f"{A}; o = torch.empty(0); {c}; o._version" for c in CALLS + REDUCTIONS]
        + [
            f"{A}; v, i = torch.max(a, 0, out=(torch.empty(0), torch.empty(0, dtype=torch.long))); (v.tolist(), i.tolist())",
            f"{A}; torch.max(a, 0, out=(torch.empty(0), torch.empty(0)))",
            f"{A}; torch.max(a, 0, out=torch.empty(0))",
            f"{A}; torch.add(a, 1, out=[torch.empty(0)])", f"{A}; torch.add(a, 1, out=5)",
            f"{A}; a.add(1, out=torch.empty(0))",
           "a = torch.ones(2, requires_grad=True); torch.add(a, 1, out=torch.empty(2))",
            "a = torch.ones(2, requires_grad=True); with torch.no_grad(): r = torch.add(a, 1, out=torch.empty(2)); r.requires_grad",
            "o = torch.zeros(2, requires_grad=True); with torch.no_grad(): torch.add(torch.ones(2), 1, out=o); o",
           "o = torch.zeros(2, requires_grad=True); torch.add(torch.ones(2), 1, out=o)",
            "o = torch.zeros(4); v = o[:2]; torch.add(torch.ones(2), 1, out=v); o",
            "o = torch.zeros(4); v = o[:2]; torch.add(torch.ones(3), 1, out=v); (o.tolist(), v.tolist())",
            "o = torch.zeros(4); v = o[2:]; torch.add(torch.ones(3), 1, out=v); (o.tolist(), v.tolist(), o.untyped_storage().nbytes())"]),
    "casts of in-place operators": ("contents", [f"a = torch.tensor([0, 1, 2]).to(torch.{d}); a.{c}"
            for d, c in itertools.product(DTYPES, IN_PLACE)]),
    "shapes of in-place operators": ("contents", [f"a = {a}; a.{c}" for a in ("torch.ones(2, 3)",
                "torch.tensor(1.)", "torch.ones(0, 3)", "torch.ones(2, 1)",
                "torch.ones(3).expand(1, 3)", "torch.ones(1, 3)")
            for c in ("add_(torch.ones(3))", "add_(torch.ones(2, 3))", "add_(torch.ones(4))",
                "add_(torch.ones(2, 2, 3))", "add_(torch.tensor(1.))", "mul_(torch.ones(1, 1))",
                "copy_(torch.ones(3))", "copy_(torch.ones(4))", "copy_(torch.ones(1, 2, 3))",
                "fill_(torch.tensor(2))", "fill_(torch.ones(1))", "fill_(torch.ones(2))",
                "masked_fill_(torch.ones(3) > 0, 2)", "masked_fill_(torch.ones(2, 2, 3) > 0, 2)",
                "addcmul_(torch.ones(2, 3), torch.ones(3))", "lerp_(torch.ones(2, 3), 0.5)",
                "clamp_(torch.zeros(2, 3))", "pow_(torch.ones(2, 3))", "zero_()")]),
    "overlaps": ("contents", [f"{SELF}; {c}; a" for c in OVERLAPS if "uniform" not in c] + [f"{SELF}; a[:1].expand(3).uniform_()"]),
    "versions": ("text", [
            f"{SELF}; {c}; a._version"
            for c in OVERLAPS if "out=a" in c or "_(" in c and "expand" not in c and "as_strided" not in c]
        + [f"{SELF}; {c}; a._version" for c in ("a.add_(0)", "a.zero_()", "a[0:0].zero_()",
                "a.copy_(a)", "a.requires_grad_()", "a.resize_(12)", "a.resize_(13)",
                "a.data.zero_()", "a.detach().zero_()", "a.set_(torch.zeros(1))", "a.t_()",
                "a.squeeze_()", "a.share_memory_()", "a.numpy()[0] = 1",
                "a.untyped_storage()[0] = 1", "a.untyped_storage().fill_(0)", "a += 1", "a -= a",
                "a *= 2", "a /= 2", "a //= 2", "a %= 2", "a **= 2", "a @= torch.eye(12)",
                "torch.nn.init.zeros_(a)", "a.uniform_()", "a.normal_()", "a.random_()",
                "a.bernoulli_()", "a.exponential_()",
                "a.clamp_(min=0)", "a.swapaxes_(0, 0)", "a.__setitem__(slice(0, 0), 1)",
                "torch.relu_(a)", "torch.nn.functional.relu(a, inplace=True)",
                "torch.nn.functional.dropout(a, 0.5, inplace=True)", "a.sum()", "a.view(3, 4)",
                "a.fill_(1)", "a.to(torch.float32)", "torch._foreach_add_([a], 1)")]),
    "operators of Python in place": ("contents", [f"a = {a}; a {op} {b}; a" for a in ("torch.tensor([4, 7])",
                "torch.tensor([4., 7.])", "torch.tensor([True, False])",
                "torch.tensor(5)") for op in ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=",
                "|=", "^=", "<<=", ">>=", "@=") for b in ("2", "2.5", "torch.tensor([1, 2])",
                "torch.tensor(True)", "[1, 2]", "None")]),
}

write("writes", SECTIONS)
