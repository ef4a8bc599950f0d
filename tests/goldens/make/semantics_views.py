"""tests/goldens/semantics/views.txt"""

import itertools

from semantics import write

# Tensors of several layouts; each is dense, sparse in memory, expanded or empty in its own way.
BASES = [
    "torch.arange(24).view(2, 3, 4)",
    "torch.arange(24).view(2, 3, 4).permute(2, 0, 1)",
    "torch.arange(24).view(4, 6)[1:, ::2]",
    "torch.arange(3).expand(2, 3)",
    "torch.arange(6).view(1, 6, 1)",
    "torch.zeros(2, 0, 3)",
    "torch.tensor(5)",
    "torch.arange(5)",
]
FLAT = "torch.arange(24)"
BOX = BASES[0]


def calls(bases, methods):
    return [f"{base}.{method}" for base, method in itertools.product(bases, methods)]


def over(name, *ranges):
    """`name(a, b, …)` for every combination of arguments."""
    return [f"{name}({', '.join(map(str, row))})" for row in itertools.product(*ranges)]


DIMS = range(-4, 4)
SHAPES = ["24", "2, 12", "6, 4", "4, 3, 2", "2, 3, 4", "3, 2, 4", "2, 3, 2, 2", "1, 2, 3, 4, 1",
    "-1", "-1, 4", "2, -1, 2", "3, 3", "6", "2, 3", "1, 6", "6, 1, 1", "-1, -1", "5, -1",
    "0", "0, -1", "-2, 12", "", "1", "2, 0, 3", "0, 6", "3, 1, 3"]

SECTIONS = {
    "view": ("geometry", calls(BASES, over("view", SHAPES)) + [
        f"{BOX}.view((6, 4))", f"{BOX}.view(torch.Size([24]))", f"{BOX}.view([2, 12])",
        f"{BOX}.view(size=(4, 6))", f"{BOX}.view(2.0, 12)", f"{BOX}.view('a')", f"{BOX}.view(None)",
        "torch.zeros(4, 4).t().view(16)", "torch.zeros(4, 1).t().view(4)",
    ]),
    "reshape": ("geometry", calls(BASES, over("reshape", SHAPES)) + [
        "x = torch.arange(6); x.reshape(2, 3).data_ptr() == x.data_ptr()",
        "x = torch.arange(6).view(2, 3).t(); x.reshape(6).data_ptr() == x.data_ptr()",
        "x = torch.arange(6).view(2, 3).t(); x.reshape(3, 2, 1).data_ptr() == x.data_ptr()",
        "torch.reshape(torch.arange(6), (3, 2))", "torch.arange(6).reshape_as(torch.zeros(2, 3))",
        "torch.arange(6).view_as(torch.zeros(3, 2))", "torch.arange(6).view_as(torch.zeros(3))",
        "torch.arange(6).reshape_as(torch.zeros(3))",
    ]),
    "flatten, ravel, unflatten": ("geometry", calls(BASES, ["flatten()", "ravel()"]
        + over("flatten", DIMS, (-1, 1, 2)))
        + calls([FLAT], ["unflatten(0, (2, 12))", "unflatten(0, (2, -1, 3))",
                "unflatten(-1, (4, 6))",
                "unflatten(0, (5, 5))", "unflatten(0, ())", "unflatten(1, (2, 12))",
                "unflatten(0, (-1, -1))", "unflatten(0, (5, -1))", "unflatten(0, [24])",
                "unflatten(dim=0, sizes=(3, 8))"])
        + calls(BASES[:3], ["unflatten(-1, (2, -1))", "unflatten(1, (3, 1))",
                "unflatten(0, (1, -1))"])),
    "view as another dtype": ("geometry", [
        f"{base}.view(torch.{dtype})"
        for base in ("torch.zeros(2, 4)", "torch.zeros(3, 3)", "torch.zeros(4, 2).t()",
                "torch.zeros(2, 8)[:, ::2]", "torch.zeros(2, 9)[:, 1:]", "torch.tensor(1.0)",
                "torch.zeros(0)", "torch.zeros(2, 4, dtype=torch.complex64)",
                "torch.zeros(4, dtype=torch.uint8)", "torch.zeros(8, dtype=torch.bool)",
                "torch.zeros(2, 4).expand(3, 2, 4)", "torch.zeros(4, 2)[1:]")
        for dtype in ("float32", "int32", "int16", "uint8", "bool", "float64", "int64", "complex64",
                "complex128", "bfloat16", "float8_e5m2")]
        + ["torch.tensor([1.0, -2.0]).view(torch.int32).tolist()",
           "torch.tensor([1.0, -2.0]).view(torch.uint8).tolist()",
           "torch.zeros(2, dtype=torch.complex64).conj().view(torch.float32)",
           "torch.zeros(2).view(dtype=torch.int32)", "torch.zeros(2).view(torch.int32, 2)"]),
    "real and complex": ("geometry", calls(
        ["torch.zeros(2, 3, dtype=torch.complex64)",
                "torch.zeros(2, 3, dtype=torch.complex128).t()[1:]",
         "torch.zeros(2, dtype=torch.complex64).conj()", "torch.zeros(2)", "torch.tensor(1j)",
         "torch.zeros(3, dtype=torch.complex32)", "torch.zeros(2, dtype=torch.int64)",
         "torch.zeros(2, dtype=torch.complex64).conj().imag",
         "torch.zeros(0, 2, dtype=torch.complex64)"],
        ["real", "imag", "conj()", "conj().conj()", "conj().imag", "conj().real", "resolve_conj()",
         "resolve_neg()", "mH", "H", "adjoint()", "conj_physical()", "_neg_view()", "_conj()"])
        + [f"torch.{f}({x})" for f in ("view_as_real", "view_as_complex", "real", "imag", "conj",
                "resolve_conj", "is_conj", "is_neg", "is_complex")
           for x in ("torch.zeros(2, 3, dtype=torch.complex64)",
                "torch.zeros(4, dtype=torch.complex128)[1::2]",
                "torch.zeros(2, dtype=torch.complex64).conj()", "torch.zeros(3, 2)",
                "torch.zeros(2, 3)", "torch.zeros(2, 4)[:, 1:3]", "torch.zeros(2, 4)[:, ::2]",
                "torch.zeros(3, 2)[1:]", "torch.zeros(3, 3)[:, :2]", "torch.tensor(1.0)",
                "torch.zeros(2, 2, dtype=torch.int64)", "torch.zeros(0, 2)",
                "torch.zeros(2, 2, dtype=torch.float16)")]),
    "lazy bits": ("contents", [
        f"z = torch.tensor([1 + 2j, 3 - 4j]); {code}" for code in (
            "z.conj()", "z.conj().imag", "z.conj().real", "z.conj().conj()", "z.conj() * z",
            "z.conj().is_conj()", "z.conj().imag.is_neg()", "z.conj().resolve_conj().is_conj()",
            "z.conj().clone().is_conj()", "z.conj().contiguous().is_conj()",
                "z.conj()[0].is_conj()",
            "z.conj().add(1).is_conj()", "z.conj().data_ptr() == z.data_ptr()",
            "z.conj().mul_(1j); z", "z.conj().imag.fill_(5); z", "z.conj().imag.add_(1); z",
            "z.conj()[0] = 7j; z", "z.conj().copy_(torch.tensor([1j, 2j])); z",
            "y = torch.zeros(2, dtype=torch.complex64); y.copy_(z.conj()); y",
            "torch.add(z, z, out=z.conj()); z", "torch.view_as_real(z.conj())",
            "torch.view_as_real(z.conj().resolve_conj())", "z.conj().numpy()",
            "z.conj().imag.numpy()", "z.conj().imag.resolve_neg().numpy()", "z.conj().tolist()",
            "z.conj().imag.tolist()", "z.conj().imag.is_contiguous()", "z.conj().sum()",
            "z.conj().imag.sum()", "torch.cat([z.conj(), z])", "torch.stack([z.conj(), z.conj()])",
            "torch.where(torch.tensor([True, False]), z, z.conj())", "z.conj().abs()",
                "z.conj().exp() == z.exp().conj()",
            "z.conj() == z.resolve_conj().conj()", "z.mH", "z.view(1, 2).mH", "z.view(1, 2).H",
            "z.view(2, 1) @ z.view(1, 2).conj()", "torch.dot(z.conj(), z)", "torch.vdot(z, z)",
            "z.conj().to(torch.complex128)", "z.conj().to(torch.complex64).is_conj()",
            "z.conj().imag.to(torch.float64)", "z.conj().imag.clone().is_neg()",
            "z.conj().imag.view(torch.int32)", "repr(z.conj())", "repr(z.conj().imag)",
            "z.conj().item()", "z.conj()[1].item()", "z.conj().imag[1].item()",
                "z.conj().reshape(2, 1)",
            "z.conj()[[1, 0]]", "z.conj()[[1, 0]].is_conj()", "z.conj().zero_(); z",
                "z.conj().fill_(1j); z",
            "z.imag.is_neg()", "torch.ones(2).conj().is_conj()", "(-z.conj().imag).is_neg()",
            "z.conj().imag.neg_(); z", "torch.isreal(z.conj())", "z.conj_physical_(); z",
            "z.real.fill_(9); z", "z.imag.mul_(2); z", "z.real = torch.tensor([5., 6.]); z",
            "z.imag = 3; z", "z.conj().index_put_((torch.tensor([0]),), torch.tensor(1j)); z",
        )]),
    "as_strided": ("geometry", [
        f"{base}.as_strided({arguments})"
        for base in ("torch.arange(12)", "torch.arange(12)[4:]", "torch.arange(12).view(3, 4).t()")
        for arguments in (
            "(2, 3), (3, 1)", "(2, 3), (0, 0)", "(3,), (4,)", "(4,), (4,)", "(4,), (3,), 2",
            "(4,), (3,), 3", "(), ()", "(), (), 11", "(), (), 12", "(0, 5), (100, 100)",
            "(2, 2), (1,)", "(2,), (-1,)", "(-1,), (1,)", "(2,), (1,), -1", "(2, 6), (6, 1), 0",
            "(2, 7), (6, 1), 0", "(3, 3), (1, 1), storage_offset=5", "size=(2,), stride=(2,)")]),
    "select and narrow": ("geometry", calls(BASES[:3] + BASES[5:], over("select", (-3, 0, 1, 2), (-4,
                    -2, 0, 1, 3)))
        + calls(BASES[:3] + BASES[5:], over("narrow", (-1, 0, 1), (-2, 0, 1, 3), (-1, 0, 1, 3)))
        + [f"{BOX}.narrow(0, torch.tensor(1), 1)", f"{BOX}.narrow(0, torch.tensor([1]), 1)",
           f"{BOX}.narrow(0, torch.tensor(1.0), 1)", f"{BOX}.select(dim=1, index=2)",
           f"{BOX}.narrow(dim=2, start=1, length=2)", f"torch.select({BOX}, 1, 1)"]),
    "slices": ("geometry", [
        f"torch.arange(7)[{a}:{b}:{step}]" for a, b, step in itertools.product(
            ("", -9, -3, 0, 2, 7, 12), ("", -8, -2, 0, 4, 7, 30), ("", 2, 3))]
        + ["torch.arange(7)[::0]", "torch.arange(7)[::-1]", "torch.arange(7)[1.5:]",
           "torch.arange(7)[torch.tensor(2):]", "torch.arange(7)[:torch.tensor(5):torch.tensor(2)]",
           "torch.arange(7)[np.int64(2):np.int32(5)]", "torch.arange(7)[None:None:None]",
           "torch.arange(7)['a':]", "torch.tensor(1)[:]", "torch.arange(7)[9223372036854775807:]",
           "torch.arange(7)[True:]"]),
    "split": ("geometry", calls(
        ["torch.arange(7)", "torch.arange(12).view(3, 4)", "torch.arange(12).view(3, 4).t()",
                "torch.zeros(0, 2)",
         "torch.tensor(1)"],
        ["split(2)", "split(3)", "split(9)", "split(0)", "split(-1)", "split(2, dim=-1)",
                "split(2, 2)",
         "split([1, 2])", "split([3, 4])", "split([1, 2, 4])", "split((1, 3), dim=-1)",
                "split([-1, 8])",
         "split([2, 2], -1)", "split([])", "split_with_sizes([3, 4])",
                "split_with_sizes([1, 2], 0)",
         "chunk(2)", "chunk(3)", "chunk(5)", "chunk(8)", "chunk(0)", "chunk(2, dim=-1)",
                "chunk(2, 3)",
         "tensor_split(2)", "tensor_split(3)", "tensor_split(9)", "tensor_split(0)",
                "tensor_split(3, dim=-1)",
         "tensor_split((1, 3))", "tensor_split([2, 1])", "tensor_split((-2, 9))",
                "tensor_split(())",
         "tensor_split(torch.tensor([1, 2]))", "tensor_split(torch.tensor(2))",
         "tensor_split(torch.tensor([1.5]))", "unbind()", "unbind(-1)", "unbind(1)", "unbind(2)"])),
    "hsplit, vsplit, dsplit": ("geometry", calls(
        ["torch.arange(4)", "torch.arange(16).view(4, 4)", "torch.arange(16).view(2, 2, 4)",
                "torch.tensor(1)"],
        [f"{f}({n})" for f in ("hsplit", "vsplit", "dsplit") for n in (1, 2, 3, 0, "(1, 3)", "[2]",
                    "(1, -1)")])),
    "diagonal": ("geometry", calls(BASES[:6], ["diagonal()"] + over("diagonal", (-2, -1, 0, 1, 3), (0,
                    -1), (1, 0, -2)))
        + calls(["torch.arange(5)", "torch.tensor(1)"], ["diagonal()", "diagonal(0, 0, 1)"])
        + ["torch.zeros(3, 4).diagonal(-9)", "torch.zeros(3, 4).diagonal(9)",
           "torch.zeros(3, 4).diagonal(offset=1, dim1=1, dim2=0)",
           "torch.linalg.diagonal(torch.zeros(2, 3, 4), offset=1)"]),
    "permute, transpose, movedim": ("geometry",
        calls(BASES[:4], over("transpose", DIMS, (-3, 0, 2)) + over("swapaxes", (0, -1), (1, 2))
            + over("swapdims", (0, -1), (1, 3)) + over("movedim", (-1, 0, 3), (0, 1, 2)))
        + calls(BASES, ["t()", "T", "mT", "H", "mH", "adjoint()"])
        + calls([BOX, "torch.tensor(1)", "torch.zeros(2, 0)"],
            [f"permute({p})" for p in ("0, 1, 2", "2, 0, 1", "-1, 0, 1", "(1, 0, 2)", "1, 0",
                    "0, 0, 1", "0, 1, 3",
                    "", "()", "dims=(2, 1, 0)", "2, 1, 1")]
            + [f"movedim({a}, {b})" for a, b in (("(0, 1)", "(1, 2)"), ("(0, 1)", "(-1, -2)"), ("(0,)",
                        "(0, 1)"),
                    ("(0, 0)", "(1, 2)"), ("(0, 1)", "(2, 2)"), ("(0, 5)", "(1, 2)"),
                    ("()", "()"), ("0", "(1,)"))]
            + ["moveaxis(0, 2)", "moveaxis((0, 1), (2, 0))", "swapaxes(axis0=0, axis1=1)",
                "swapdims(dim0=0, dim1=1)"])
        + ["torch.tensor(1).transpose(0, -1)", "torch.tensor(1).transpose(0, 1)",
            "torch.tensor(1).movedim(0, 0)",
           "torch.arange(3).transpose(0, 0)", "torch.arange(3).transpose(0, 1)",
            "torch.arange(3).transpose(-1, 0)"]),
    "squeeze and unsqueeze": ("geometry", calls(
        ["torch.zeros(1, 3, 1, 2, 1)", "torch.zeros(2, 3).t()", "torch.tensor(1)",
                "torch.zeros(1, 0, 1)",
         "torch.zeros(4, 1)[::2]"],
        ["squeeze()", "squeeze(())", "squeeze((0, 2))", "squeeze((0, 1, -1))", "squeeze((0, 0))",
                "squeeze([0])",
         "squeeze((0, 9))"] + over("squeeze", range(-6, 6)) + over("unsqueeze", range(-7, 7)))),
    "expand": ("geometry", calls(
        ["torch.arange(3)", "torch.arange(3).view(3, 1)", "torch.arange(3).view(1, 3)",
                "torch.tensor(1)",
         "torch.zeros(1, 0)", "torch.arange(3).expand(2, 3)", "torch.arange(8).view(2, 4)[:, :1]"],
        [f"expand({s})" for s in ("3", "2, 3", "3, 4", "-1, 4", "3, -1", "2, -1, 3", "-1", "4",
                    "0, 3", "2, 0", "",
                    "()", "(3, 3)", "2, 3, 1", "-2, 3", "5, 3, 4", "1, 1, 3")]
        + ["expand_as(torch.zeros(2, 3))", "broadcast_to((2, 3))", "broadcast_to((3, 4))",
                "expand(2, 3).contiguous()",
           "expand(size=(2, 3))"])
        + [
            f"torch.broadcast_tensors({', '.join(f'torch.zeros{s}' for s in shapes)})"
            for shapes in (
            ["(2, 1)", "(3)"], ["(2, 1, 3)", "(4, 1)", "(1)"], ["(2)", "(3)"], ["(0)", "(1)"], ["(0)",
                    "(2)"])]
        + ["torch.broadcast_shapes((2, 1), (3,))", "torch.broadcast_shapes((2,), (3,))",
           "torch.broadcast_shapes((0,), (1,), ())", "torch.broadcast_shapes(2, (3, 1))"]),
    "unfold": ("geometry", calls(["torch.arange(7)", "torch.arange(12).view(3, 4)",
                "torch.arange(12).view(3, 4).t()",
                "torch.tensor(1)", "torch.zeros(0)"],
            over("unfold", (0, -1, 2), (-1, 0, 1, 3, 9), (1, 2, 0)))),
    "detach, alias, contiguous, positive": ("geometry", calls(BASES, [
        "detach()", "contiguous()", "positive()", "clone()", "ravel()", "data",
                "view_as(torch.zeros(3))",
        "expand_as(torch.zeros(2, 3, 4))", "contiguous(memory_format=torch.channels_last)"])
        + calls(["torch.zeros(2, 3)", "torch.zeros(2, 3).t()"], [f"{f}.data_ptr() == 0" for f in ("detach()",
                )])
        + [f"x = {base}; x.{f}.data_ptr() == x.data_ptr()" for base in BASES[:4] for f in (
            "detach()", "contiguous()", "positive()", "data", "clone()", "to(torch.int64)",
                "to(torch.float32)", "to('cpu')",
            "view_as(x)", "expand_as(x)", "real", "conj()", "resolve_conj()", "resolve_neg()",
                "cpu()", "long()")]),
    "shapes and sizes": ("text", calls(
        ["torch.zeros(2, 3)", "torch.tensor(1)", "torch.zeros(0)"],
        ["shape", "size()", "size(0)", "size(-1)", "size(2)", "size(-3)", "stride()", "stride(0)",
                "stride(-1)", "stride(5)",
         "dim()", "ndim", "numel()", "nelement()", "ndimension()", "storage_offset()",
                "element_size()", "itemsize",
         "nbytes", "shape.numel()", "is_contiguous()", "__len__()", "shape[0]", "shape[-1:]",
                "shape + (1,)",
         "size(dim=0)", "stride(dim=0)", "dim_order()"])
        + ["len(torch.zeros(2, 3))", "torch.numel(torch.zeros(2, 3))",
            "torch.Size([2, 3]) + torch.Size([4])",
           "torch.Size([2, 3]) * 2", "torch.Size([1.5])", "torch.Size(2)",
            "hash(torch.Size([1])) == hash((1,))",
           "torch.Size([2, 3]) == (2, 3)", "torch.Size((2, 0)).numel()", "torch.Size()"]),
}

write("views", SECTIONS)
