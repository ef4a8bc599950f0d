"""tests/goldens/semantics/reading.txt: indexing that reads."""

import itertools

from semantics import write

BOX = "t = torch.arange(24).view(2, 3, 4)"
# One place of an index. Pairs and triples of these are tried on a tensor of three dimensions.
PLACES = ["0", "-1", ":", "1:", "::2", "None", "...", "True", "False", "[0, 1]",
    "torch.tensor([1, 0])",
    "torch.tensor([[0], [1]])", "torch.tensor(1)", "torch.tensor(True)", "[True, False]"]
RARE = ["2", "-4", "5:9", "[]", "[[0, 1], [1, 0]]", "[1]", "(0, 1)", "range(2)", "np.array([0, 1])",
    "np.int64(1)",
    "np.array(1)", "np.array([True, False])", "np.bool_(True)", "torch.tensor([True, False, True])",
    "torch.tensor([[True, False, True], [False, True, False]])",
    "torch.tensor([0, 1], dtype=torch.int32)",
    "torch.tensor([0, 1], dtype=torch.uint8)", "torch.tensor([0, 1], dtype=torch.int16)",
    "torch.tensor([0, 1], dtype=torch.int8)",
    "torch.tensor([0., 1.])", "torch.tensor([0, -2])", "torch.tensor([0, 9])",
    "torch.empty(0, dtype=torch.long)",
    "torch.zeros(0, 3, dtype=torch.long)", "torch.zeros(2, 3, 4, dtype=torch.bool)", "t > 20",
    "torch.zeros(2, 0, dtype=torch.bool)",
    "1.0", "1j", "object", "slice(0, 1)", "slice(None, None, 2)", "()", "[0, slice(None)]",
    "[None]", "[True]", "[0, True]",
    "[torch.tensor(0), torch.tensor(1)]", "[np.int64(0), 1]", "[0.5]", "[[0, 1], [0]]",
    "torch.tensor(1.0)",
    "torch.tensor(1, dtype=torch.uint8)", "torch.tensor(1, dtype=torch.int8)",
    "torch.tensor([], dtype=torch.float32)",
    "[range(2)]", "[[True, False, True], [False, True, False]]", "[[[0]]]", "[[]]",
    "9223372036854775808", "-9223372036854775809"]


def read(setup, indices):
    return [f"{setup}; t[{index}]" for index in indices]


def indexed(*calls):
    return [f"{BOX}; t.{call}" for call in calls]


I, M = "torch.tensor([1, 0])", "t % 2 == 0"
PAIRS = [", ".join(p) for p in itertools.product(PLACES, repeat=2)]
TRIPLES = [", ".join(p) for p in itertools.product(["0", ":", "None", "...", "True", "[0, 1]",
            "torch.tensor([[0], [1]])"], repeat=3)]
FOURS = [", ".join(p) for p in itertools.product([":", "[1]", "0"], repeat=4)]

LAYOUTS = ["t = torch.arange(24).view(4, 3, 2).permute(2, 1, 0)",
    "t = torch.arange(4).expand(2, 3, 4)", "t = torch.zeros(2, 0, 4)",
    "t = torch.tensor(7)", "t = torch.arange(5)", "t = torch.arange(48).view(2, 3, 8)[..., 1::2]",
    "t = torch.arange(3) * (1 + 2j)", "t = torch.tensor([True, False, True])"]

SECTIONS = {
    "one place": ("contents", read(BOX, PLACES + RARE)),
    "two places": ("contents", read(BOX, PAIRS)),
    "three places": ("geometry", read(BOX, TRIPLES)),
    "four places": ("geometry", read(BOX, FOURS)),
    "rare places among others": ("contents", read(BOX, [f"0, {r}" for r in RARE] + [f":, {r}"
                for r in RARE] + [f"..., {r}" for r in RARE])),
    "layouts": ("contents", [f"{setup}; t[{i}]" for setup in LAYOUTS for i in PLACES + ["0, 0",
                ":, 0", "..., 0", ":, [0]", "[0], [0]", "t > 0", "[0], :, [1]",
                "None, None", "..., None", "0, 0, 0", "0, 0, 0, 0", "..., ...", "()"]]),
    "bounds and words": ("contents", read(BOX, [
        "2", "-3", "0, 3", "0, 0, 0, 0", "..., 0, 0, 0, 0", "[2]", "[-3]", "[0, 2], [0, 1]",
                ":, [3]", "[0, 1], [0, 1, 2]", "[[0, 1]], [[0], [1], [2]]",
        "torch.zeros(3, dtype=torch.bool)", "torch.zeros(2, 2, dtype=torch.bool)",
                "torch.zeros(2, 3, 4, 5, dtype=torch.bool)", ":, torch.zeros(2, dtype=torch.bool)",
        "torch.zeros(2, 3, 4, dtype=torch.bool), 0", "::0", "::-1", "0:1:-1", "1.5", "0, 1.5", "{}",
                "None, None, None, 0, 0, 0, 0", "..., None, ..."])),
    "views and copies": ("text", [f"{BOX}; t[{i}].data_ptr() == t.data_ptr()" for i in ("0", ":",
                "...", "None", "0, 0", ":, :2", "True", "[0]", "torch.tensor(0)",
                "torch.tensor([0])",
                "[True, True]", "()", "np.int64(0)", "np.array(0)", "torch.tensor(True)",
                "0, True")]
        + [f"{BOX}; t[{i}]._base is t" for i in ("0", "...", "()", ":", "[0]", "None",
                "torch.tensor(0)", "True")]
        + [f"{BOX}; t[{i}] is t" for i in ("...", "()", ":")]
        + [f"{BOX}.permute(2, 0, 1); t[{i}].stride()" for i in ("[0, 1]", ":, [0, 1]",
                "..., [0, 1]", "[0, 1], [0, 1]", "[[0, 1]]", ":, :, torch.tensor([[0, 1]])",
                "torch.tensor([[0, 1], [1, 0]])")]),
    "select, take, gather": ("contents", indexed(
        f"index_select(0, {I})", f"index_select(-1, {I})", f"index_select(3, {I})",
            "index_select(0, torch.tensor([2]))", "index_select(0, torch.tensor([-1]))",
            "index_select(0, torch.tensor(1))",
        "index_select(0, torch.tensor([[1]]))", "index_select(0, torch.tensor([1.0]))",
            "index_select(1, torch.tensor([0, 0, 2], dtype=torch.int32))",
            "index_select(0, torch.tensor([], dtype=torch.long))",
        "take(torch.tensor([0, 23, -1]))", "take(torch.tensor([24]))",
            "take(torch.tensor([[1, 2], [3, 4]]))", "take(torch.tensor([1], dtype=torch.int32))",
            "take(torch.tensor(3))",
        "transpose(0, 2).take(torch.tensor([1, 2]))",
            "take_along_dim(torch.tensor([[[1, 0, 2, 1]]]), 1)",
            "take_along_dim(torch.tensor([5, 6]))", "take_along_dim(torch.tensor([[[9]]]), 2)",
            "take_along_dim(torch.tensor([[1.0]]), 1)",
        "gather(0, torch.zeros(1, 3, 4, dtype=torch.long))",
            "gather(2, torch.tensor([[[3, 0], [1, 1]]]))", "gather(2, torch.tensor([[[4]]]))",
            "gather(2, torch.tensor([[[-1]]]))", "gather(1, torch.tensor([0]))",
        "gather(1, torch.zeros(3, 1, 1, dtype=torch.long))",
            "gather(1, torch.zeros(1, 1, 5, dtype=torch.long))", "gather(1, torch.zeros(1, 1, 1))",
            "gather(3, torch.zeros(1, 1, 1, dtype=torch.long))",
            "gather(1, torch.zeros(0, dtype=torch.long))",
        "gather(1, torch.zeros(1, 2, 1, dtype=torch.int32))", f"masked_select({M})",
            "masked_select(torch.tensor(True))",
            "masked_select(torch.tensor([True, False, False, True]))",
            "masked_select(torch.tensor([True]))",
        "masked_select(torch.tensor([1]))", "masked_select(torch.tensor([True, False]))",
            "nonzero().shape", "nonzero(as_tuple=True)", "view(24)[::5].nonzero()",
            "view(24)[::5].nonzero(as_tuple=True)", "argwhere().shape",
        "index_select(dim=0, index=torch.tensor([1]))",
            "gather(dim=0, index=torch.zeros(1, 1, 1, dtype=torch.long))")
        + ["torch.tensor(3).nonzero()", "torch.tensor(0).nonzero()",
            "torch.tensor(3).nonzero(as_tuple=True)", "torch.tensor(3).argwhere()",
            "torch.zeros(0, 2).nonzero()", "torch.tensor([0., nan, -0.]).nonzero()",
           "torch.tensor(3).gather(0, torch.tensor(0))",
            "torch.tensor(3).index_select(0, torch.tensor(0))",
            "torch.tensor(3).index_select(0, torch.tensor(1))",
            "torch.tensor(3).take(torch.tensor([0, 0]))",
           "torch.tensor(3).masked_select(torch.tensor(True))",
            "torch.arange(3).gather(0, torch.tensor(1))", "torch.zeros(0).take(torch.tensor([0]))",
            "torch.zeros(0).take(torch.tensor([], dtype=torch.long))",
           "torch.zeros(0, 2).index_select(1, torch.tensor([0]))",
            "torch.zeros(0, 2).index_select(0, torch.tensor([0]))"]),
    "where": ("contents", [f"torch.where({a})" for a in (
        "torch.tensor([True, False]), 1, 2", "torch.tensor([True, False]), 1, 2.5",
                "torch.tensor([True, False]), 1, True", "torch.tensor([True, False]), 1j, 2",
                "torch.tensor([True, False]), torch.tensor([1, 2]), 2.5",
        "torch.tensor([True, False]), torch.tensor([1., 2.]), torch.tensor([3, 4])",
                "torch.tensor([[True], [False]]), torch.arange(3), torch.tensor(9)",
                "torch.tensor([1, 0]), 1, 2", "torch.tensor([1, 0], dtype=torch.uint8), 1, 2",
        "torch.tensor([True, False]), torch.zeros(3), 1", "torch.tensor([True, False, True])",
                "torch.tensor(True)", "torch.tensor([[0, 3], [4, 0]])",
                "torch.tensor(False), 1, torch.tensor([1, 2])",
                "torch.zeros(0, dtype=torch.bool), 1, 2",
        "True, 1, 2", "torch.tensor([True]), 'a', 2", "torch.tensor([1.0, 0.0]), 1, 2",
                "torch.tensor([True]), torch.tensor([1], dtype=torch.int8), torch.tensor([1], dtype=torch.uint8)",
        "torch.tensor([True]), torch.tensor([1], dtype=torch.float16), 1",
                "torch.tensor([True, False]), torch.tensor([1., 2.]), torch.tensor(3., dtype=torch.float64)")]
        + ["torch.arange(3).where(torch.tensor([True, False, True]), 9)",
            "torch.arange(3).where(torch.tensor([True, False, True]), torch.tensor(9.5))",
            "torch.arange(3).where(torch.arange(3) > 0, torch.zeros(2))"]),
    "Python's protocols": ("text", [
        "[int(v) for v in torch.arange(3)]", "len(torch.zeros(2, 3))", "len(torch.tensor(1))",
            "list(torch.tensor(1))", "3 in torch.arange(5)", "9 in torch.arange(5)",
            "'a' in torch.arange(5)", "torch.tensor(2) in torch.arange(5)",
        "[tuple(v.shape) for v in torch.zeros(2, 0)]", "a, b = torch.tensor([1, 2]); (a, b)",
            "list(reversed([1])) and torch.arange(3).__reversed__().tolist()",
            "range(5)[torch.tensor(3)]", "[10, 20][torch.tensor(1)]",
        "[10, 20][torch.tensor([1])]", "[10, 20][torch.tensor(1.0)]",
            "[10, 20][torch.tensor(True)]", "bool(torch.tensor([]))", "bool(torch.tensor([1, 2]))",
            "bool(torch.tensor([[0]]))", "bool(torch.tensor(nan))", "int(torch.tensor(1.9))",
            "int(torch.tensor(-1.9))",
        "int(torch.tensor([1, 2]))", "float(torch.tensor([2]))", "int(torch.tensor(nan))",
            "int(torch.tensor(inf))", "complex(torch.tensor(1))", "float(torch.tensor(1j))",
            "float(torch.tensor(2 + 0j))", "torch.tensor([1, 2]).item()", "torch.tensor([]).item()",
            "torch.tensor([[3]]).item()",
        "torch.tensor(True).item()", "torch.tensor(0.1).item()",
            "torch.tensor(0.1, dtype=torch.float16).item()",
            "torch.tensor(255, dtype=torch.uint8).item()", "torch.arange(4).view(2, 2).tolist()",
            "torch.tensor(3).tolist()", "torch.zeros(2, 0).tolist()", "torch.zeros(0, 2).tolist()",
        "torch.tensor(1) == torch.tensor(1)", "torch.tensor([1, 2]) == [1, 2]",
            "torch.tensor(1) == None", "torch.tensor(1) != 'a'", "torch.tensor(1) == 'a'",
            "torch.tensor(5).__index__()", "torch.tensor(5.0).__index__()",
            "torch.tensor([5]).__index__()", "torch.tensor(True).__index__()",
        "f'{torch.tensor(1.5):.3f}'", "f'{torch.tensor([1.5])}'", "f'{torch.tensor([1.5]):.3f}'",
            "f'{torch.tensor(3):>5}'", "str(torch.tensor(2))", "divmod(torch.tensor(7), 2)",
            "round(torch.tensor(2.5))", "round(torch.tensor(2.567), 2)", "abs(torch.tensor(-2))",
            "torch.tensor(7) // 2", "7 // torch.tensor(2)", "torch.tensor(-7) % 3",
            "7 % torch.tensor(-3)",
        "torch.tensor(1) + 'a'", "torch.tensor(1) + None", "torch.tensor(1) + [1]",
            "torch.tensor([1, 2]) + np.array([1, 2])", "np.array([1, 2]) + torch.tensor([1, 2])",
            "torch.tensor([1, 2]) + np.float32(1.5)", "np.float64(2) * torch.tensor([1, 2])",
            "torch.tensor([1, 2]) < 'a'", "~torch.tensor(1.0)", "torch.tensor(1.0) & 1",
            "1 << torch.tensor(3)", "torch.tensor(1) << 2.0", "2 ** torch.tensor(3)",
            "torch.tensor(2) ** -1", "torch.tensor(2.0) ** -1", "pow(torch.tensor(2), 3)",
            "pow(torch.tensor(2), 3, 5)", "torch.tensor([1., 2.]) @ 2", "1 @ torch.tensor([1.])",
            "not torch.tensor(0)", "-torch.tensor(True)", "+torch.tensor(1)", "~torch.tensor(True)",
            "torch.tensor(True) - torch.tensor(True)", "torch.tensor(True) - 1"]),
}

write("reading", SECTIONS)
