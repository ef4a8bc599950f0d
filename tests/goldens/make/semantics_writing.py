"""tests/goldens/semantics/writing.txt: indexing that writes."""

import itertools

from semantics import write

BOX = "t = torch.zeros(2, 3, 4, dtype=torch.long)"
ROW = "t = torch.arange(5)"
TABLE = "t = torch.zeros(3, 4)"

PLACES = ["0", ":", "1:", "::2", "None", "...", "True", "False", "[0, 1]",
    "torch.tensor([[0], [1]])", "torch.tensor(1)", "torch.tensor(True)"]
MASKS = ["t > 5", "torch.tensor([True, False])", "torch.zeros(2, 3, dtype=torch.bool)",
    "[True, False]", "torch.tensor([[True, False, True], [False, True, False]])",
    "torch.tensor([True, False]), 0", "0, torch.tensor([True, False, True])",
    ":, torch.tensor([True, False, True])", "torch.zeros(3, dtype=torch.bool)"]
VALUES = ["7", "1.7", "True", "torch.tensor(5)", "torch.tensor([5])", "torch.arange(4)",
    "torch.arange(12).view(3, 4)", "torch.tensor(2.9)", "torch.tensor([[3]])", "torch.zeros(5)",
    "torch.ones(1, 1, 1, 1, 4)"]
ODD = ["None", "'a'", "[1, 2, 3, 4]", "np.arange(4)", "np.int64(3)", "np.float32(2.5)", "1j", "nan",
    "inf", "9223372036854775808", "torch.tensor(1j)", "[[1], [2]]", "(1, 2, 3, 4)", "object()",
    "range(4)", "torch.tensor([True])", "np.array(4)",
    "torch.zeros(0)", "torch.ones(4, dtype=torch.float16)"]


def assign(setup, indices, values):
    return [f"{setup}; t[{i}] = {v}; t" for i, v in itertools.product(indices, values)]


def on(setup, *calls):
    return [f"{setup}; t.{call}; t" for call in calls]


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64"]
IDX = "torch.tensor([0, 2])"
REDUCE = ["sum", "prod", "mean", "amax", "amin"]
SRC = "torch.arange(1., 13.).view(3, 4)"

SECTIONS = {
    "places and values": ("contents", assign(BOX, PLACES + ["0, 0", "..., 1", ":, 1:",
                "[0, 1], [1, 2]", ":, [0, 2]", "[0, 1], :, [1, 2]", "0, [0, 1]", "None, 0",
                "0, 0, 0"], VALUES)),
    "odd values": ("contents", assign(BOX, ["0", "[0, 1]", "0, 0, 0", "t == 0"], ODD) + assign(TABLE,
            ["0", "[0]", "0, 0"], ODD)),
    "masks": ("contents", assign("t = torch.arange(24).view(2, 3, 4)", MASKS, ["-1",
                "torch.tensor(-1)", "torch.tensor([-1, -2, -3, -4])", "torch.tensor([-1])",
                "torch.tensor([])", "1.5", "torch.arange(18)", "torch.arange(9)"])),
    "numbers into dtypes": ("contents", [
            f"t = torch.zeros(3, dtype=torch.{d}); t[1] = {v}; t" for d in DTYPES for v in ("1",
                "-1", "1.7", "True", "300", "1j", "1e10", "nan", "70000", "2 ** 40")]
        + [f"t = torch.zeros(3, dtype=torch.{d}); t[[0, 2]] = {v}; t" for d in DTYPES for v in ("1",
                "-1", "1.7", "300", "1j", "torch.tensor(2.5)", "torch.tensor(2, dtype=torch.int8)",
                "torch.tensor([1.5, 2.5])")]
        + [f"t = torch.zeros(3, dtype=torch.{d}); t[t == 0] = {v}; t" for d in DTYPES for v in ("1",
                "1.7", "-1", "1j", "torch.tensor(2.5)",
                "torch.tensor([1, 2, 3], dtype=torch.int8)")]),
    "expanded and overlapping": ("contents", [f"{setup}; {code}; t" for setup in ("t = torch.zeros(3).expand(2, 3)",
                "t = torch.zeros(1).expand(4)", "t = torch.zeros(6).as_strided((3, 3), (1, 1))",
                "t = torch.zeros(2, 3).expand(2, 2, 3)")
            for code in ("t[0] = 1", "t[:] = 1", "t[0] = torch.tensor(1.)", "t[:] = torch.ones(3)",
                "t[[0]] = 1", "t[t == 0] = 1", "t[[0]] = torch.ones(3)", "t.fill_(2)", "t.zero_()",
                "t.add_(1)", "t.copy_(torch.ones(3))", "t.masked_fill_(t == 0, 1)",
                "t.index_fill_(0, torch.tensor([0]), 1)", "t.copy_(t)",
                "t.index_put_((torch.tensor([0]),), torch.tensor(1.))",
                "t.index_copy_(0, torch.tensor([0]), t[:1].clone())",
                "t.index_add_(0, torch.tensor([0]), t[:1].clone())",
                "t.scatter_(0, torch.zeros(1, dtype=torch.long), 1.)",
                "t.put_(torch.tensor([0]), torch.tensor([1.]))",
                "t.masked_scatter_(t == 0, torch.ones(9))", "t[0].add_(1)", "t[..., 0] = 5",
                "t[0, ...] = 2")]
        + [f"{ROW}; {code}; t" for code in ("t[1:] = t[:-1]", "t[:-1] = t[1:]", "t[:] = t.flip(0)",
                "t[[0, 1]] = t[[1, 0]]", "t[::2] = t[:3]", "t[0] = t", "t += t[0]", "t[:2] += 1",
                "t[[0, 0]] += 1", "t[1:].add_(t[:-1])", "t.copy_(t[0])", "t[1:3] = t[1:3]",
                "t[t > 2] -= 10", "t[...] = 0", "t[:, None] = 3", "t[None] = torch.arange(5) * 2",
                "t[1, ...] = 9", "t[()] = 4")]),
    "errors": ("contents", assign(BOX, ["5", "0, 5", "0, 0, 0, 0", "[5]", "[0, 1], [0, 1, 2]",
                "1.5", "..., 0, 0, 0, 0", "::-1", "torch.tensor([0.5])",
                "torch.zeros(4, dtype=torch.bool)", "0, 0, 0, ..., 0", "{}", "[0.5]",
                "np.bool_(True)"], ["1", "torch.tensor(1)"])
        + assign(BOX, ["0", ":", "[0]", "0, 0", "0, 0, 0", "[0, 1], [0, 1]", "t == 0"], ["torch.zeros(3)",
                "torch.zeros(2, 2)", "torch.zeros(2, 3, 5)", "torch.zeros(0)",
                "torch.zeros(2, 2, 3, 4)", "torch.zeros(1, 1)"])
        + ["t = torch.tensor(1); t[0] = 1", "t = torch.tensor(1); t[...] = 4; t",
            "t = torch.tensor(1); t[()] = 4; t", "t = torch.tensor(1); t[None] = 4; t",
            "t = torch.tensor(1); t[True] = 4; t", "t = torch.tensor(1); t[False] = 4; t",
            "t = torch.tensor(1); t[t == 1] = 4; t", "t = torch.tensor(1); t[:] = 1",
            "t = torch.zeros(0, 3); t[0] = 1", "t = torch.zeros(0, 3); t[:, 0] = 1; t",
            "t = torch.zeros(0, 3); t[[]] = 1; t", "t = torch.zeros(3); t[[]] = 1; t",
            "t = torch.zeros(3); t[[]] = torch.ones(2)", "t = torch.zeros(3); del t[0]",
            "t = torch.zeros(3); t.x = 1; t", "t = torch.arange(3.); t[1] = 'x'"]),
    "versions": ("text", [f"t = torch.zeros(3, 3); t{code}; t._version" for code in ("[0] = 1",
                "[:] = 1", "[[0]] = 1", "[t == 0] = 1", "[0][0] = 1", "[False] = 1", "[[]] = 1",
                "[0:0] = 1", "[0] = torch.ones(3)", "[[0]] = torch.ones(3)",
                "[t > 9] = torch.ones(0)", "[0] += 1", "[[0]] += 1", "[:, None] = 1",
                "[torch.tensor(0)] = 1",
                ".index_fill_(0, torch.tensor([0]), 1)", ".masked_fill_(t == 0, 1)",
                ".scatter_(0, torch.tensor([[0]]), 1.)",
                ".put_(torch.tensor([0]), torch.tensor([1.]))",
                ".index_put_((torch.tensor([0]),), torch.tensor(1.))", ".take(torch.tensor([0]))",
                ".index_copy_(0, torch.tensor([0]), torch.ones(1, 3))")]),
    "index_put_": ("contents", on("t = torch.zeros(3, 4)", *(f"index_put_({i}, {v}{a})" for i in ("(torch.tensor([0, 0, 2]),)",
                    "(torch.tensor([0, 0]), torch.tensor([1, 1]))",
                    "[torch.tensor([[0], [1]]), torch.tensor([2, 3])]", "(t == 0,)",
                    "(torch.tensor([3]),)", "(torch.tensor([-1, 2]),)", "(torch.tensor([0.5]),)",
                    "(torch.tensor([], dtype=torch.long),)", "(torch.tensor([True, False, True]),)",
                    "(torch.tensor([0]), torch.tensor([0]), torch.tensor([0]))",
                    "torch.tensor([0])", "([0],)")
                for v in ("torch.tensor(1.)", "torch.ones(4)", "torch.ones(2)",
                    "torch.tensor(1)") for a in ("", ", accumulate=True")))
        + ["t = torch.zeros(3, 4); t.index_put((torch.tensor([0, 0]),), torch.ones(4), True)",
            "t = torch.zeros(3); t.index_put_((torch.tensor([0]),), 1.0)",
            "t = torch.zeros(3, dtype=torch.bool); t.index_put_((torch.tensor([0, 0]),), torch.tensor(True), True); t",
            "t = torch.zeros(3, dtype=torch.uint8); t.index_put_((torch.tensor([0, 0]),), torch.tensor(200, dtype=torch.uint8), True); t"]),
    "masked": ("contents", on("t = torch.arange(6).view(2, 3)", *(f"{f}({m}, {v})" for f in ("masked_fill_",
                    "masked_fill") for m in ("t > 2", "torch.tensor([True, False, True])",
                    "torch.tensor(True)", "torch.tensor([True, False])", "t",
                    "torch.tensor([1, 0, 1], dtype=torch.uint8)",
                    "torch.ones(2, 2, 3, dtype=torch.bool)")
                for v in ("9", "1.5", "torch.tensor(9)", "torch.tensor(1.5)", "torch.tensor([9])",
                    "True", "1j")),
            *(f"masked_scatter_({m}, {v})" for m in ("t > 2", "torch.tensor([True, False, True])",
                    "torch.tensor([[True], [False]])", "torch.tensor([1])",
                    "torch.tensor([True, False])") for v in ("torch.arange(10, 20)",
                    "torch.tensor([7])", "torch.zeros(9)", "torch.arange(12).view(3, 4)", "7")))
        + ["t = torch.arange(6).view(2, 3); t.masked_fill(t > 2, 9)",
            "t = torch.arange(3); t.masked_fill(torch.tensor([[True], [False]]), 9)",
            "t = torch.arange(3); t.masked_scatter(torch.tensor([[True], [False]]), torch.arange(7, 12))",
            "t = torch.arange(3).expand(2, 3); t.masked_fill(t > 1, 9)"]),
    "index_add_, index_copy_, index_fill_": ("contents", on(TABLE, *(f"index_add_({d}, {i}, {v}{a})"
                for d, i, v in (("0", IDX, "torch.ones(2, 4)"), ("1", IDX, "torch.ones(3, 2)"), ("-1",
                        "torch.tensor([1, 1])", "torch.ones(3, 2)"), ("0", IDX, "torch.ones(3, 4)"),
                    ("0", IDX, "torch.ones(2, 3)"), ("0", "torch.tensor([3])", "torch.ones(1, 4)"),
                    ("0", "torch.tensor([-1])", "torch.ones(1, 4)"), ("0", "torch.tensor(1)",
                        "torch.ones(4)"), ("0", "torch.tensor([[0]])", "torch.ones(1, 4)"), ("0",
                        "torch.tensor([0.])", "torch.ones(1, 4)"), ("0", IDX,
                        "torch.ones(2, 4, dtype=torch.float64)"), ("0", IDX, "1"), ("5", IDX,
                        "torch.ones(2, 4)"), ("0", "torch.tensor([0, 2], dtype=torch.int32)",
                        "torch.ones(2, 4)")) for a in ("", ", alpha=2")),
            *(f"index_copy_({d}, {i}, {v})" for d, i, v in (("0", IDX, "torch.ones(2, 4)"), ("1",
                        IDX, "torch.ones(3, 2)"), ("0", "torch.tensor([1, 1])",
                        "torch.arange(8.).view(2, 4)"), ("0", IDX, "torch.ones(3, 4)"), ("0", IDX,
                        "torch.ones(2, 3)"), ("0", "torch.tensor([3])", "torch.ones(1, 4)"), ("0",
                        "torch.tensor([-1])", "torch.ones(1, 4)"), ("0", "torch.tensor(1)",
                        "torch.ones(4)"), ("0", "torch.tensor([0, 2], dtype=torch.int32)",
                        "torch.ones(2, 4)"), ("0", IDX, "torch.ones(2, 4, dtype=torch.float64)"), ("0",
                        "torch.tensor([[0]])", "torch.ones(1, 4)"), ("9", IDX,
                        "torch.ones(2, 4)"))),
            *(f"index_fill_({d}, {i}, {v})" for d in (0, -1) for i in (IDX, "torch.tensor([-1])",
                    "torch.tensor([9])", "torch.tensor(1)", "torch.tensor([[0]])",
                    "torch.tensor([0.])", "torch.tensor([], dtype=torch.long)",
                    "torch.tensor([0], dtype=torch.int32)") for v in ("5", "2.5", "torch.tensor(5)",
                    "torch.tensor([5.])", "1j", "True")))
        + ["t = torch.arange(3); t.index_fill_(0, torch.tensor([0]), 1.7); t",
            "t = torch.tensor(1); t.index_fill_(0, torch.tensor([0]), 2); t",
            "t = torch.tensor(1); t.index_add_(0, torch.tensor([0]), torch.tensor(2)); t",
            "t = torch.tensor(1); t.index_copy_(0, torch.tensor([0]), torch.tensor(2)); t",
            "t = torch.arange(3); t.index_add_(0, torch.tensor([0]), torch.tensor([1]), alpha=1.5)",
            "torch.arange(3).index_fill(0, torch.tensor([0]), 9)",
            "torch.arange(3).index_copy(0, torch.tensor([0]), torch.tensor([9]))",
            "torch.arange(3).index_add(0, torch.tensor([0]), torch.tensor([9]))"]),
    "scatter": ("contents", on(TABLE, *(f"{f}({d}, {i}, {v})" for f in ("scatter_",
                    "scatter_add_") for d, i, v in (("0", "torch.tensor([[0, 1, 2, 0]])", SRC), ("1",
                        "torch.tensor([[0], [1], [3]])", SRC), ("0", "torch.tensor([[3]])", SRC), ("0",
                        "torch.tensor([[-1]])", SRC), ("1", "torch.tensor([0, 1])", SRC), ("0",
                        "torch.zeros(1, 5, dtype=torch.long)", SRC), ("0",
                        "torch.zeros(4, 1, dtype=torch.long)", SRC), ("0", "torch.tensor([[0.]])",
                        SRC), ("0", "torch.tensor([[0]])", "torch.ones(1, 1, dtype=torch.float64)"),
                    ("0", "torch.tensor([[0]])", "torch.ones(1)"), ("5", "torch.tensor([[0]])",
                        SRC), ("0", "torch.tensor([], dtype=torch.long)", SRC), ("0",
                        "torch.tensor([[1]], dtype=torch.int32)", SRC), ("0",
                        "torch.tensor([[1, 2]])", "7"), ("0", "torch.tensor([[1, 2]])", "7.5"), ("0",
                        "torch.tensor([[1, 2]])", "torch.tensor(7.)"))),
            *(f"scatter_(0, torch.tensor([[0, 1, 1, 0]]), {v}, reduce='{r}')" for r in ("add",
                    "multiply", "mean", "") for v in (SRC, "2")),
            *(f"scatter_reduce_({d}, {i}, {SRC}, '{r}'{inc})" for r in REDUCE + ["max"] for d,
                i in ((0, "torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]])"), (1,
                        "torch.tensor([[0, 0], [1, 2]])"), (0, "torch.tensor([[9]])")) for inc in ("",
                    ", include_self=False")))
        + on("t = torch.arange(5)", *(
                f"scatter_reduce_(0, torch.tensor([0, 0, 3]), torch.tensor([5, 8, 2]), '{r}'{inc})"
                for r in REDUCE for inc in ("", ", include_self=False")), *(
                f"index_reduce_(0, torch.tensor([0, 0, 3]), torch.tensor([5, 8, 2]), '{r}'{inc})"
                for r in ("prod", "mean", "amax", "amin") for inc in ("", ", include_self=False")))
        + ["t = torch.tensor(1); t.scatter_(0, torch.tensor(0), torch.tensor(5)); t",
            "t = torch.tensor(1); t.scatter_(0, torch.tensor(1), 5)",
            "torch.arange(3).scatter(0, torch.tensor([1]), 9)",
            "torch.arange(3).scatter_add(0, torch.tensor([1, 1]), torch.tensor([4, 5]))",
            "torch.arange(3.).scatter_reduce(0, torch.tensor([1, 1]), torch.tensor([4., 5.]), 'mean')"]),
    "put_ and take": ("contents", on("t = torch.arange(6).view(2, 3)", *(f"put_({i}, {v}{a})" for i,
                v in (("torch.tensor([0, -1])", "torch.tensor([8, 9])"), ("torch.tensor([1, 1])",
                        "torch.tensor([8, 9])"), ("torch.tensor([6])", "torch.tensor([8])"), ("torch.tensor([0, 1])",
                        "torch.tensor([8])"), ("torch.tensor([0.])", "torch.tensor([8])"), ("torch.tensor([0])",
                        "torch.tensor([8.])"), ("torch.tensor([[0, 1]])", "torch.tensor([8, 9])"), ("torch.tensor([], dtype=torch.long)",
                        "torch.tensor([], dtype=torch.long)")) for a in ("", ", True")))
        + ["t = torch.arange(6).view(2, 3).t(); t.put_(torch.tensor([1]), torch.tensor([99])); t",
            "torch.arange(3).put(torch.tensor([0]), torch.tensor([9]))"]),
    "scattering into views": ("contents", ["torch.zeros(2, 3).select_scatter(torch.ones(3), 0, 1)",
            "torch.zeros(2, 3).select_scatter(torch.ones(2), 0, 1)",
            "torch.zeros(4).slice_scatter(torch.ones(2), 0, 1, 4, 2)",
            "torch.zeros(4).slice_scatter(torch.ones(3), 0, 1, 4, 2)",
            "torch.zeros(2, 3).diagonal_scatter(torch.ones(2), 1)",
            "torch.zeros(2, 3).diagonal_scatter(torch.ones(3), 1)",
            "torch.zeros(4).as_strided_scatter(torch.ones(2), (2,), (2,))",
            "torch.select_scatter(torch.zeros(2), torch.tensor(1.), 0, -1)",
            "torch.zeros(2, 3).select_scatter(torch.ones(3, dtype=torch.long), 0, 1)"]),
}

write("writing", SECTIONS)
