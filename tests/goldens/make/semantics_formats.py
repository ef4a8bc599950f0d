"""tests/goldens/semantics/formats.txt: memory formats and the strides of results."""

import itertools

from semantics import write

# Layouts of (2, 3, 4, 5), and of shapes with sizes of one and none.
LAYOUTS = ["torch.ones(2, 3, 4, 5)", "torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)",
    "torch.ones(5, 4, 3, 2).permute(3, 2, 1, 0)", "torch.ones(3, 2, 4, 5).transpose(0, 1)",
    "torch.ones(1, 3, 1, 5).expand(2, 3, 4, 5)",
    "torch.ones(4, 6, 8, 10)[::2, ::2, ::2, ::2]",
    "torch.ones(2, 4, 5, 3).permute(0, 3, 1, 2)[:, :, 1:3]",
    "torch.ones(2, 1, 4, 5).to(memory_format=torch.channels_last)", "torch.ones(2, 3, 1, 1)",
    "torch.ones(2, 3, 1, 1).to(memory_format=torch.channels_last)",
    "torch.ones(1, 3, 4, 5).to(memory_format=torch.channels_last)",
    "torch.ones(2, 0, 4, 5)", "torch.ones(2, 0, 4, 5).to(memory_format=torch.channels_last)",
    "torch.ones(2, 3, 4, 2, 5).to(memory_format=torch.channels_last_3d)", "torch.ones(3, 4)",
    "torch.ones(4, 3).t()", "torch.ones(4).expand(3, 4)", "torch.ones(3, 8)[:, ::2]",
    "torch.ones(3, 1)", "torch.ones(1, 3).t()", "torch.ones(())", "torch.ones(7)",
    "torch.ones(14)[::2]",
    "torch.ones(2, 3, 4).permute(1, 2, 0)", "torch.ones(3, 4)[:, 1:3].t()",
    "torch.ones(2, 3, 4, 5).permute(1, 0, 2, 3)[:, :, :, ::2]",
    "torch.ones(99).as_strided((2, 3), (1, 7))", "torch.ones(9).as_strided((2, 3, 2), (0, 1, 3))",
    "torch.ones(9).as_strided((1, 3), (99, 1))", "torch.ones(9).as_strided((3, 1, 2), (2, 50, 1))"]
UNARY = ["x + 1", "x.exp()", "-x", "x.clone()", "x.contiguous()", "torch.zeros_like(x)",
    "torch.empty_like(x)", "torch.rand_like(x)", "torch.full_like(x, 2)", "x.to(torch.float64)",
    "x.double()", "x.bool()", "x > 0", "x.relu()", "x.sigmoid()", "x.abs()", "x.clamp(0, 1)",
    "x.pow(2)", "x.isnan()", "x.round()", "x.neg()", "x * x", "x + x.sum()", "x.where(x > 0, 0.0)",
    "x.masked_fill(x > 0, 1)",
    "x.softmax(-1)", "x.log_softmax(0)", "x.cumsum(0)", "x.flip(0)", "x.roll(1, 0)", "x.tril()",
    "x.sum(0)", "x.sum(-1, keepdim=True)", "x.mean((0, -1))", "x.amax(0)", "x.var(0)",
    "x.argmax(0)", "x.any(0)", "x.prod(0)", "x.norm(dim=0)", "x.sum(())", "x.logsumexp(0)",
    "x.max(0)[0]", "x.cummax(0)[0]", "x.index_select(0, torch.tensor([0]))", "x[[0]]", "x[:, None]",
    "x[x > 0]", "x.gather(0, torch.zeros_like(x, dtype=torch.long))",
    "x.unsqueeze(0)", "x.squeeze()", "x.reshape(-1)", "x.flatten()", "x.repeat_interleave(2, 0)",
    "torch.cat([x, x])", "torch.cat([x, x], -1)", "torch.stack([x, x])", "torch.stack([x, x], -1)",
    "x.new_empty(x.shape)", "x.new_zeros((2, 2))",
    "torch.empty_like(x, memory_format=torch.contiguous_format)",
    "x.clone(memory_format=torch.contiguous_format)",
    "x.clone(memory_format=torch.preserve_format)",
    "x.contiguous(memory_format=torch.contiguous_format)",
    "x.to(torch.float64, memory_format=torch.contiguous_format)", "x.addcmul(x, x)",
    "x.lerp(x, 0.5)", "torch.maximum(x, x)", "x.bernoulli()", "torch.nn.functional.dropout(x)",
    "torch.nn.functional.gelu(x)", "torch.nn.functional.leaky_relu(x)",
    "x.detach().requires_grad_().clone()", "x.nan_to_num()",
    "x.scatter(0, torch.zeros_like(x, dtype=torch.long)[:1], 1.0)",
    "x.index_fill(0, torch.tensor([0]), 1)", "x.index_add(0, torch.tensor([0]), x[:1])",
    "x.view_as(x)", "x.movedim(0, -1).exp()", "torch.complex(x, x)", "x.logical_not()", "x.sort()",
    "x.deg2rad()", "x.diagonal().clone()", "x.copysign(-1)", "x.add_(1)", "x.exp_()", "x.triu()",
    "x.tile(2)", "x.masked_scatter(x > 0, x)"]
FORMATS4 = ["torch.contiguous_format", "torch.channels_last", "torch.channels_last_3d",
    "torch.preserve_format"]
PAIRS = ["torch.ones(2, 3, 4, 5)", "torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)",
    "torch.ones(5, 4, 3, 2).permute(3, 2, 1, 0)", "torch.ones(1, 3, 1, 1)", "torch.ones(5)",
    "torch.ones(())", "torch.ones(3, 4, 5)", "torch.ones(3, 1, 1)",
    "torch.ones(2, 3, 4, 5)[..., ::2].repeat_interleave(2, -1)[..., :5]",
    "torch.ones(4, 6, 4, 5)[::2, ::2]", "torch.ones(1, 3, 1, 5).expand(2, 3, 4, 5)",
    "torch.ones(2, 1, 4, 5).to(memory_format=torch.channels_last)",
    "torch.ones(3, 2, 4, 5).transpose(0, 1)", "2", "torch.ones(4, 5, 3).permute(2, 0, 1)"]
BINARY = ["x + y", "torch.where(x > 0, x, y)", "x / y",
    "torch.maximum(x, torch.as_tensor(y, dtype=torch.float32))", "x == y",
    "torch.addcmul(torch.as_tensor(y, dtype=torch.float32), x, x)",
    "x.clone().copy_(torch.as_tensor(y))"]
IMAGE = ["torch.ones(2, 4, 6, 6)", "torch.ones(2, 4, 6, 6).to(memory_format=torch.channels_last)",
    "torch.ones(4, 2, 6, 6).transpose(0, 1)", "torch.ones(1, 4, 6, 6).expand(2, 4, 6, 6)",
    "torch.ones(2, 6, 6, 4).permute(0, 3, 1, 2)[:1]", "torch.ones(2, 1, 6, 6)",
    "torch.ones(2, 4, 1, 1)", "torch.ones(4, 6, 6)", "torch.ones(6, 6, 4).permute(2, 0, 1)",
    "torch.ones(2, 4, 12, 6)[:, :, ::2]"]
LAYERS = ["F.conv2d(x, torch.ones(3, 4, 3, 3))",
    "F.conv2d(x, torch.ones(3, 4, 3, 3).to(memory_format=torch.channels_last))",
    "F.conv2d(x, torch.ones(4, 1, 3, 3), groups=4)", "F.conv2d(x, torch.ones(3, 4, 1, 1))",
    "F.conv_transpose2d(x, torch.ones(4, 3, 3, 3))", "F.max_pool2d(x, 2)",
    "F.max_pool2d(x, 2, return_indices=True)[1]", "F.avg_pool2d(x, 2)",
    "F.adaptive_avg_pool2d(x, 2)", "F.adaptive_avg_pool2d(x, 1)", "F.adaptive_max_pool2d(x, 2)",
    "F.batch_norm(x, torch.zeros(4), torch.ones(4))",
    "F.batch_norm(x, None, None, training=True)", "F.group_norm(x, 2)",
    "F.layer_norm(x, x.shape[-1:])", "F.instance_norm(x)", "F.interpolate(x, scale_factor=2)",
    "F.interpolate(x, scale_factor=2, mode='bilinear')", "F.pad(x, (1, 1))",
    "F.pad(x, (1, 1), mode='reflect')", "F.relu(x)", "F.softmax(x, 1)", "F.dropout2d(x)",
    "F.pixel_shuffle(x, 2)", "F.linear(x, torch.ones(3, x.shape[-1]))", "torch.cat([x, x], 1)",
    "torch.cat([x, x.contiguous()], 1)", "torch.cat([x.contiguous(), x], 1)", "torch.stack([x, x])",
    "x.sum(1, keepdim=True)", "x + torch.ones(4, 1, 1)", "x @ x.transpose(-1, -2)", "x.matmul(x)",
    "F.unfold(x, 2)", "F.normalize(x)", "F.prelu(x, torch.ones(1))", "F.hardtanh(x)",
    "F.softplus(x)", "F.silu(x)", "F.channel_shuffle(x, 2)", "F.max_pool2d(x, 3, 1, 1)",
    "F.local_response_norm(x, 2)", "x.mean((2, 3))", "F.one_hot(x.long(), 3)"]
GRADS = ["F.conv2d(x, torch.ones(3, 4, 3, 3))", "F.max_pool2d(x, 2)", "F.avg_pool2d(x, 2)", "x * 2",
    "x.relu()", "x.sum()", "x.exp()", "F.batch_norm(x, None, None, training=True)",
    "x.permute(1, 0, 2, 3) * 3", "x[0]", "x.contiguous()", "x.reshape(-1)", "torch.cat([x, x])",
    "x + torch.ones(2, 4, 6, 6, requires_grad=True)", "x.mean(0)",
    "x.to(memory_format=torch.channels_last)", "x.clone(memory_format=torch.contiguous_format)"]
MATRICES = ["torch.ones(2, 3)", "torch.ones(3, 2).t()", "torch.ones(4, 6)[::2, ::2]",
    "torch.ones(1, 3).expand(2, 3)", "torch.ones(0, 3)", "torch.ones(2, 0)", "torch.ones(4, 2, 3)",
    "torch.ones(4, 3, 2).mT", "torch.ones(2, 4, 3).transpose(0, 1)", "torch.ones(3)",
    "torch.ones(1, 2, 3).expand(4, 2, 3)"]
RIGHT = ["torch.ones(3, 5)", "torch.ones(5, 3).t()", "torch.ones(3)", "torch.ones(4, 3, 5)",
    "torch.ones(4, 5, 3).mT", "torch.ones(3, 0)", "torch.ones(6)[::2]", "torch.ones(5, 1, 3, 2)"]


def cases(layouts, expressions, name="x"):
    return [f"{name} = {layout}; {e}" for layout in layouts for e in expressions]


def functional(expressions):
    return ["F = torch.nn.functional; " + e for e in expressions]


SECTIONS = {
    "flags": ("text", [
            f"x = {layout}; (x.is_contiguous(), x.is_contiguous(memory_format=torch.channels_last), x.is_contiguous(memory_format=torch.channels_last_3d), x.dim_order())"
            for layout in LAYOUTS if "expand" not in layout and "(0, 1, 3)" not in layout]
        + [f"x = {layout}; {e}" for layout in LAYOUTS for e in ("x.stride()",)] + [
            "torch.empty(1).is_contiguous(memory_format=torch.preserve_format)",
            "torch.empty(1).is_contiguous(5)"]),
    "one operand": ("strides", cases(LAYOUTS, UNARY)),
    "formats asked for": ("strides", [
            f"x = {layout}; {e}" for layout in LAYOUTS for f in FORMATS4 for e in (f"x.to(memory_format={f})",
                f"x.contiguous(memory_format={f})", f"x.clone(memory_format={f})",
                f"torch.empty_like(x, memory_format={f})",
                f"torch.empty(x.shape, memory_format={f})")]
        + ["torch.ones(2, 3, 4, 5).contiguous(torch.channels_last)",
            "torch.ones(2, 3, 4, 5).to(memory_format=1)",
            "torch.nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last).weight",
            "torch.empty(2, 3, 4, 5, memory_format=torch.channels_last, dtype=torch.float64)",
            "torch.empty_strided((2, 2), (1, 2))", "torch.empty_strided((2, 2), (1,))",
            "torch.empty_strided((2,), (-1,))", "torch.empty_permuted((2, 3, 4), (2, 0, 1))",
            "torch.ones(2, 3).resize_(2, 2, 2, 2, memory_format=torch.channels_last)",
            "torch.ones(2, 3, 4, 5).resize_as_(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last))",
            "torch.ones(2, 3, 4, 5).resize_as_(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), memory_format=torch.preserve_format)"]),
    "two operands": ("strides", [f"x = {a}; y = {b}; {e}" for a, b in itertools.product(PAIRS[:-2] +
                PAIRS[-1:], PAIRS) for e in BINARY if a != "2"]),
    "lists of tensors": ("strides", [f"x, y = {a}, {b}; {e}" for a, b in itertools.product(PAIRS[:3] +
                PAIRS[-6:-4] + ["torch.empty(0)"], repeat=2) for e in ("torch.cat([x, y], 1)",
                "torch.cat([x, y, x])", "torch.stack([x, y])", "torch.stack([x, y], -1)")]),
    "images": ("strides", [f"x = {layout}; {e}" for layout in IMAGE for e in functional(LAYERS)]),
    "volumes": ("strides", [f"x = {layout}; {e}" for layout in ("torch.ones(2, 4, 4, 6, 6)",
                "torch.ones(2, 4, 4, 6, 6).to(memory_format=torch.channels_last_3d)")
            for e in functional(["F.conv3d(x, torch.ones(3, 4, 3, 3, 3))", "F.max_pool3d(x, 2)",
                    "F.avg_pool3d(x, 2)", "F.adaptive_avg_pool3d(x, 2)",
                    "F.batch_norm(x, None, None, training=True)", "x + 1", "torch.cat([x, x], 1)",
                    "F.relu(x)", "F.interpolate(x, scale_factor=2)"])]),
    "gradients": ("strides", [
            f"x = {layout}.requires_grad_(); F = torch.nn.functional; ({e}).sum().backward(); x.grad"
            for layout in IMAGE[:4] for e in GRADS]),
    "matrix products": ("strides", [f"x = {a}; y = {b}; x @ y" for a, b in itertools.product(MATRICES,
                RIGHT)] + [f"x = {a}; {e}" for a in MATRICES for e in ("torch.mm(x, x.mT)",
                "x.mT @ x", "torch.outer(x[0], x[0])",
                "torch.nn.functional.linear(x, torch.ones(5, 3))",
                "torch.addmm(torch.ones(5), x, torch.ones(3, 5))", "torch.bmm(x, x.mT)",
                "torch.einsum('...ij,...kj->...ik', x, x)", "torch.tensordot(x, x, 1)",
                "x.mv(torch.ones(3))")]),
    "samples of new tensors": ("strides", ["torch.zeros(2, 3)", "torch.ones(2, 0, 3)",
            "torch.full((2, 3), 1)", "torch.rand(2, 3)", "torch.randn(2, 3)",
            "torch.randint(5, (2, 3))", "torch.eye(3)", "torch.arange(3)",
            "torch.linspace(0, 1, 3)", "torch.tensor([[1, 2], [3, 4]])",
            "torch.tensor(np.ones((2, 3)).T)", "torch.from_numpy(np.ones((2, 3)).T)",
            "torch.as_tensor(np.ones((4, 4))[::2])", "torch.from_numpy(np.ones((2, 3))[::-1])",
            "torch.nonzero(torch.ones(3, 2))",
            "torch.meshgrid(torch.ones(2), torch.ones(3), indexing='ij')",
            "torch.meshgrid(torch.ones(2), torch.ones(3), indexing='xy')",
            "torch.cartesian_prod(torch.ones(2), torch.ones(3))", "torch.tril_indices(3, 3)",
            "torch.randperm(4)", "torch.block_diag(torch.ones(2, 2), torch.ones(1))",
            "torch.diag(torch.ones(3))", "torch.diag_embed(torch.ones(2, 3))",
            "torch.diag_embed(torch.ones(2, 3), 1, 0, 2)", "torch.vander(torch.ones(3))",
            "torch.combinations(torch.ones(3))"]),
}

write("formats", SECTIONS)
