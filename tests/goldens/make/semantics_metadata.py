"""tests/goldens/semantics/metadata.txt"""

from semantics import write

LEAF = "a = torch.arange(6.0).view(2, 3).clone().requires_grad_()"
PLAIN = "a = torch.arange(6.0).view(2, 3).clone()"
INNER = LEAF + "; b = a * 1"

VIEWS = ["view(3, 2)", "view(-1)", "reshape(3, 2)", "flatten()", "ravel()", "unflatten(1, (3, 1))",
    "t()", "T", "mT", "H",
    "mH", "adjoint()", "transpose(0, 1)", "swapaxes(0, 1)", "swapdims(0, 1)", "permute(1, 0)",
    "movedim(0, 1)",
    "moveaxis(0, 1)", "select(0, 1)", "narrow(1, 0, 2)", "squeeze()", "squeeze(0)",
    "squeeze((0, 1))",
    "unsqueeze(0)", "expand(4, 2, 3)", "expand_as(torch.zeros(1, 2, 3))", "broadcast_to((1, 2, 3))",
    "diagonal()", "unfold(1, 2, 1)", "as_strided((2,), (1,))", "view_as(torch.zeros(3, 2))",
    "detach()", "data",
    "[0]", "[:, 1]", "[None]", "[...]", "[:]", "[0:1]", "[0, 1]", "[True]", "[[0]]",
    "[torch.tensor(0)]", "[a > 2]",
    "real", "conj()", "resolve_conj()", "positive()", "contiguous()", "clone()",
    "to(torch.float32)", "to(torch.float64)",
    "view(torch.int32)", "view(torch.float32)", "reshape_as(torch.zeros(3, 2))", "t().reshape(6)",
    "t().contiguous()", "cpu()", "type_as(torch.zeros(1))", "float()"]
MULTI = ["split(1)", "split([1, 1])", "chunk(2)", "unbind()", "tensor_split(2)", "hsplit(3)",
    "vsplit(2)",
    "split_with_sizes([1, 1])"]


def dotted(call):
    return call if call.startswith("[") else "." + call


def node(name):
    return f"type({name}.grad_fn).__name__"


PIECES = [f"{m}[1]" for m in MULTI]
IN_PLACE_VIEWS = ["t_()", "transpose_(0, 1)", "swapaxes_(0, 1)", "swapdims_(0, 1)", "unsqueeze_(0)",
    "squeeze_()",
    "squeeze_(0)", "squeeze_((0,))", "as_strided_((3,), (2,))", "detach_()", "resize_(6)",
    "resize_(9)",
    "resize_as_(torch.zeros(3))", "set_(torch.zeros(2))", "transpose_(0, 5)", "requires_grad_()",
    "set_()", "permute(1, 0)"]
WRITES = ["add_(1)", "mul_(2)", "zero_()", "fill_(3)", "copy_(torch.ones(3))",
    "__setitem__(0, 5.0)", "neg_()", "exp_()",
    "requires_grad_(False)", "detach_()", "t_()", "squeeze_()", "unsqueeze_(0)", "resize_(3)"]

SECTIONS = {
    "base and version": ("text", [
        f"{PLAIN}; v = a{dotted(call)}; before = v._version; a.add_(1); "
        "(v._is_view(), v._base is a, v._base is None, v is a, before, v._version, a._version)"
        for call in VIEWS + PIECES]),
    "views of a tensor that requires a gradient": ("text", [
        f"{INNER}; v = b{dotted(call)}; "
        f"({node('v')}, v._is_view(), v._base is b, v.requires_grad, v.is_leaf, v.output_nr)"
        for call in VIEWS + PIECES]),
    "views of a leaf": ("text", [
        f"{LEAF}; v = a{dotted(call)}; v.add_(1); (v._version, {node('v')})"
        for call in VIEWS + PIECES]),
    "in-place on a view": ("text", [
        f"{INNER}; v = b{dotted(call)}; v.mul_(2); "
        f"({node('v')}, {node('b')}, v._version, b._version, v.is_leaf)"
            for call in VIEWS + PIECES]),
    "gradients through writes to views": ("contents", [
        f"{INNER}; v = b{dotted(call)}; v.mul_(2); b.sum().backward(); a.grad"
        for call in VIEWS if call not in ("detach()", "data", "conj()")]),
    "in-place on the base": ("text", [
        f"{INNER}; v = b{dotted(call)}; b.mul_(2); ({node('v')}, {node('b')}, v._version)"
            for call in VIEWS + PIECES]),
    "views made without gradients": ("text", [
        f"{base}; with torch.no_grad(): v = b{dotted(call)}; "
        f"v.mul_(2); ({node('v')}, v.requires_grad, v._version)"
        for base in (INNER, PLAIN + "; b = a")
        for call in ("view(6)", "[0]", "t()", "detach()", "unbind()[0]", "split(1)[1]", "clone()",
                "view(6)[1:]")]
        + [
            f"{LEAF}; with torch.no_grad(): v = a[0]; with torch.no_grad(): v.add_(1); (v.requires_grad, v._version, a._version, {node('v')})",
           f"{LEAF}; with torch.no_grad(): a.add_(1); a._version",
           f"{INNER}; with torch.no_grad(): b.add_(1); (b._version, {node('b')})"]),
    "inference tensors": ("text", [
        "with torch.inference_mode(): a = torch.ones(2, 3); with torch.inference_mode(): v = a[0]; " +
            code
        for code in ("a.is_inference()", "v.is_inference()", "a._version", "a.add_(1)", "v.add_(1)",
                "a[0].is_inference()", "a[0].add_(1)",
                "a.requires_grad_()", "a.clone().is_inference()", "a.view(6).is_inference()",
                "(a * 2).is_inference()", "v._is_view()",
                "a * torch.ones(3, requires_grad=True)", "a.detach().is_inference()",
                "a.data.is_inference()", "a.t_()")]
        + ["a = torch.ones(2, 3); with torch.inference_mode(): v = a[0]; " + code for code in (
            "(v.is_inference(), v._is_view(), a._version)", "v.add_(1); (a._version, v._version)",
                "v.requires_grad_()",
            "with torch.inference_mode(): v.add_(1); a._version",
                "with torch.inference_mode(): a.add_(1); a._version",
            "with torch.inference_mode(): w = v * 2; w.is_inference()",
                "v[0].mul_(2); a._version")]),
    "errors of in-place on views": ("text",
        [f"{INNER}; v = b.unbind()[0]; v.{write}" for write in WRITES]
        + [f"{LEAF}; v = a[0]; v.{write}" for write in WRITES]
        + [f"{LEAF}; a.{write}" for write in WRITES]
        + [f"{INNER}; b.{write}; (b._version, {node('b')})" for write in WRITES[:-1]]
        + [f"{INNER}; v = b.{call}[0]; b.add_(1); {node('v')}" for call in MULTI]
        + [f"{INNER}; v, w = b.unbind(); b.add_(1); {node('w')}"]),
    "in-place views": ("text",
        [
            f"{PLAIN}; r = a.{call}; (r is a, tuple(a.shape), a.stride(), a._version, a._is_view())"
            for call in IN_PLACE_VIEWS]
        + [
            f"{PLAIN}; v = a[0:1]; r = v.{call}; (r is v, tuple(v.shape), v.stride(), v._version, a._version, v._is_view(), v._base is a)"
           for call in IN_PLACE_VIEWS]
        + [
            f"{INNER}; b.{call}; ({node('b')}, tuple(b.shape), b._version)"
            for call in IN_PLACE_VIEWS]
        + [
            f"{INNER}; v = b[0:1]; v.{call}; ({node('v')}, {node('b')}, tuple(v.shape), b._version)"
            for call in IN_PLACE_VIEWS]),
    "detach and data": ("text", [
        f"{start}; {code}" for start in (LEAF, PLAIN, INNER + "; a = b") for code in (
            "d = a.detach(); d.add_(1); (a._version, d._version, d.requires_grad, d._is_view(), d._base is a, d.data_ptr() == a.data_ptr())",
            "d = a.data; d.add_(1); (a._version, d._version, d.requires_grad, d._is_view(), d.data_ptr() == a.data_ptr())",
            "a.add_(1); d = a.data; d._version",
                "a.detach_(); (a.requires_grad, a.is_leaf, a._version)",
            "d = a.detach(); d.resize_(12); (tuple(a.shape), tuple(d.shape), a.untyped_storage().nbytes())",
            "d = a.detach(); d.t_(); (tuple(a.shape), tuple(d.shape), a._version)",
                "d = a.detach().requires_grad_(); (d.is_leaf, a.requires_grad)",
            "a.data = torch.zeros(4); (tuple(a.shape), a._version, a.requires_grad)",
                "a.data = torch.zeros(4, dtype=torch.float64); a.dtype",
            "a.data = torch.zeros(2, dtype=torch.int64); a.dtype", "a.data = [1]", "a.data = None",
                "v = a[0]; v.detach_()", "v = a.detach()[0]; v.detach_(); v._is_view()",
            "del a.data",
                "d = a.detach(); d.set_(torch.zeros(7)); (tuple(a.shape), a._version, d._version)",
            "a.data.t_(); tuple(a.shape)", "a.detach().detach()._version", "a.detach() is a",
                "a.data is a")]),
    "saved tensors notice changes": ("contents", [
        f"{LEAF}; b = a * 1; c = b{op}; {change}; c.sum().backward(); a.grad" for op in (" * b",
                ".sqrt()", " + b", ".abs()")
        for change in ("b.add_(1)", "b[0].zero_()", "b.detach().add_(1)", "b.data.add_(1)",
                "b.t_()", "b.view(6).mul_(2)", "c.add_(1)",
                "c.detach().zero_()", "c.data.zero_()", "c[0] = 1", "pass")]),
    "names of nodes": ("text", [
        f"a = torch.ones(2, 2, requires_grad=True); v = {code}; (type(v.grad_fn).__name__, v.grad_fn.name(), v.output_nr)"
            for code in (
            "a + 1", "1 + a", "a - 1", "1 - a", "a * a", "a / 2", "2 / a", "a ** 2", "2 ** a",
                "a ** a", "-a", "+a * 1", "abs(a)", "a @ a", "a.sum()", "a.sum(0)",
            "a.mean()", "a.mean(1)", "a.max()", "a.max(0)[0]", "a.amax()", "a.sort()[0]",
                "a.topk(1)[0]", "a.cumsum(0)", "a.prod()", "a.std()", "a.var(0)", "a.norm()",
            "a.exp()", "a.log()", "a.sqrt()", "a.tanh()", "a.sigmoid()", "a.relu()",
                "a.clamp(0, 1)", "a.softmax(0)", "a.log_softmax(0)", "torch.cat([a, a])",
            "torch.stack([a, a])", "a.index_select(0, torch.tensor([0]))",
                "a.gather(0, torch.zeros(1, 1, dtype=torch.long))", "a[[0]]", "a[a > 0]",
                "a.masked_fill(a > 0, 1)",
            "a.where(a > 0, 0.0)", "a.to(torch.float64)", "a.double()", "a.clone()",
                "a.repeat(2, 1)", "a.expand(2, 2, 2)", "a.flip(0)", "a.roll(1)", "a.tril()",
                "a.triu()",
            "a.mm(a)", "a.mv(a[0])", "a[0].dot(a[1])", "a.unsqueeze(0).bmm(a.unsqueeze(0))",
                "torch.addmm(a, a, a)", "torch.outer(a[0], a[0])", "a.unbind()[1]", "a.split(1)[1]",
                "a.chunk(2)[0]",
            "a.index_add(0, torch.tensor([0]), a[:1])",
                "a.scatter(0, torch.zeros(1, 1, dtype=torch.long), 1.0)", "torch.lerp(a, a, 0.5)",
                "a.addcmul(a, a)", "a.addcdiv(a, a)",
            "torch.maximum(a, a)", "a.atan2(a)", "a.fmod(2)", "a.remainder(2)", "a.floor()",
                "a.round()", "a.sign()", "a.erf()", "a.pow(2.0)", "a.square()", "a.rsqrt()",
                "a.reciprocal()",
            "torch.complex(a, a)", "torch.view_as_real(torch.complex(a, a))",
                "torch.complex(a, a).real", "torch.complex(a, a).abs()", "a.logsumexp(0)",
                "a.cumprod(0)", "a.diag()", "a.trace()",
            "a.median()", "a.kthvalue(1)[0]", "a.min(0)[0]", "a.aminmax()[0]",
                "torch.nn.functional.gelu(a)", "torch.nn.functional.silu(a)",
                "torch.nn.functional.linear(a, a, a[0])",
            "torch.nn.functional.dropout(a, 0.5)", "torch.nn.functional.mse_loss(a, a)",
                "torch.nn.functional.cross_entropy(a, torch.tensor([0, 1]))",
                "torch.nn.functional.leaky_relu(a)")]),
}

write("metadata", SECTIONS)
