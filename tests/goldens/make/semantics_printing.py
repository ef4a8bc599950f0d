"""tests/goldens/semantics/printing.txt"""

import itertools

from semantics import write

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e5m2",
    "float8_e4m3fn", "complex32"]
DATA = ["[]", "0", "1", "[1]", "[0, 1]", "[[0, 1], [2, 3]]", "[[]]", "[[[1, 0]]]"]
FLOATS = ["0.1", "[0.1, 0.25]", "[1.0, 2.0]", "[1e-5, 1.0]", "[1e-4, 1.0]", "[1e4, 1.0]",
    "[999.5, 1.0]", "[1000.5, 1.0]", "[1e8]", "[1.5e8]", "[1e9, 2.0]", "[99999999.0]", "[nan]",
    "[inf, -inf]", "[nan, 1.5]", "[nan, 1.0]", "[inf, 1.5, -2.25]", "[-0.0]", "[-0.0, 0.5]",
    "[0.0, 0.0]", "[1e-10]", "[1e-38]", "[1e-45]", "[3.4e38]", "[0.00001, 0.00002]",
    "[0.0001]", "[0.00012345]", "[123456.0]", "[123456.5]", "[1234567.0, 0.5]", "[-1.0, 1.0]",
    "[-1.5, 10.25, 100.125]", "[0.99999]", "[0.99994, 0.5]", "[9.99999]", "[1 / 3]",
    "[100000.0, 0.1]", "[5e-324]", "[1e300]", "[1e16]", "[2.5, nan, inf]", "[1000.0, 1.0]",
    "[1001.0, 1.0]", "[1e3, 1.0, 0.5]", "[1e-3, 1.0]", "[9e-4, 1.0]", "[1.0, 1e-3, 1e3]",
    "[[1.0, 2.5], [100.0, -3.0]]", "[[nan, inf], [1.0, 2.0]]"]
INTS = ["[1, -20]", "[100, 2000000]", "[-9223372036854775808]", "[[1, 10], [-100, 1000]]", "[0]",
    "-5", "[9, 99, 999]"]
COMPLEX = ["1 + 2j", "[1 + 2j, -0.5 - 1j]", "[1j]", "[0j]", "[1e-10 + 1j]", "[1e10 + 1j]",
    "[complex(nan, 1)]", "[complex(inf, -inf)]", "[[1 + 1j, 2.25 - 3j]]", "[-0.0 + 0j]",
    "[1000 + 0.001j, 1 + 1j]", "[1.5 + 100.25j, 2 - 3j]"]
SHAPES = ["torch.arange(n)", "torch.arange(n).float()", "torch.arange(n) / 4",
    "torch.arange(n) % 2 == 0"]
BIG = ["torch.arange(1000)", "torch.arange(1001)", "torch.arange(10000.)", "torch.zeros(100, 100)",
    "torch.zeros(7, 200)", "torch.zeros(6, 200)", "torch.zeros(2, 600)", "torch.zeros(1001, 1)",
    "torch.zeros(1, 1001)", "torch.zeros(20, 10, 10)", "torch.zeros(2, 3, 4, 50)",
    "torch.arange(2000.).view(20, 100)", "torch.arange(2000).view(2, 1000) * 1000000",
    "torch.arange(3000).view(10, 10, 30)", "torch.arange(1200) * 1j",
    "torch.ones(1001, dtype=torch.bool)", "torch.arange(1500.) / 7", "torch.zeros(0, 2000)",
    "torch.zeros(1100).requires_grad_()", "torch.arange(1001, dtype=torch.int8)",
    "torch.arange(100).expand(100, 100)", "torch.arange(2000).view(1000, 2).t()"]
SUFFIXES = ["torch.ones(2, requires_grad=True)", "torch.ones(14, requires_grad=True)",
    "torch.ones(13, requires_grad=True)", "torch.ones(2, requires_grad=True) * 2",
    "torch.ones(9, requires_grad=True).exp()", "torch.ones(2, requires_grad=True).double()",
    "torch.ones(3, 3, requires_grad=True).sum(0)",
    "torch.ones(2, dtype=torch.float64, requires_grad=True)",
    "torch.ones(14, dtype=torch.float64, requires_grad=True)",
    "torch.ones(10, dtype=torch.bfloat16) * 1.5", "torch.ones(12, dtype=torch.int32) * 1000",
    "torch.empty(3, device='meta')", "torch.empty(2, 0, device='meta', dtype=torch.int64)",
    "torch.empty(3, device='meta', dtype=torch.float16)", "torch.empty((), device='meta')",
    "torch.empty(3, device='meta', requires_grad=True)",
    "torch.zeros(0, 3)", "torch.zeros(0, 3, dtype=torch.int64)", "torch.zeros(0)",
    "torch.zeros(0, dtype=torch.bool)", "torch.zeros(2, 0, 4)",
    "torch.zeros(0, 3, requires_grad=True)", "torch.tensor([], requires_grad=True)",
    "torch.tensor([], dtype=torch.complex64)", "torch.nn.Parameter(torch.ones(2))",
    "torch.nn.Parameter(torch.zeros(0, 2))",
    "torch.nn.Parameter(torch.ones(2), requires_grad=False)",
    "torch.nn.Parameter(torch.ones(2, 2, dtype=torch.float64))", "torch.tensor([1 + 2j]).conj()",
    "torch.tensor([1 + 2j]).conj().imag", "torch.ones(2, requires_grad=True)[0]",
    "torch.ones(2, requires_grad=True).detach()", "torch.ones(2, requires_grad=True).view(1, 2)",
    "torch.ones(2, requires_grad=True).unbind()",
    "[torch.ones(1), torch.tensor(2)]", "{'a': torch.ones(1)}", "torch.max(torch.ones(2, 2), 0)",
    "torch.Size([2, 3])", "torch.float32", "torch.device('cpu')", "torch.strided",
    "torch.channels_last", "torch.finfo(torch.float32)", "torch.iinfo(torch.int8)",
    "torch.finfo(torch.bfloat16)", "torch.nn.Linear(2, 3)",
    "torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())",
    "torch.ones(2).untyped_storage()", "torch.ones(1).storage()",
    "torch.ones(2, requires_grad=True).sum().grad_fn.name()", "torch.Generator().device",
    "torch.no_grad().__class__.__name__"]
OPTIONS = ["precision=2", "precision=8", "precision=0", "threshold=5", "edgeitems=1, threshold=5",
    "edgeitems=2, threshold=3", "linewidth=40", "linewidth=20", "sci_mode=True", "sci_mode=False",
    "profile='short'", "profile='full'", "profile='default', precision=1",
    "precision=6, sci_mode=True"]
SHOWN = ["torch.arange(12) / 7", "torch.arange(24).view(4, 6)", "torch.tensor([1e-5, 1.0])",
    "torch.tensor([1.0, 2.0])", "torch.arange(10) * (0.5 + 1j)", "torch.tensor(1 / 3)",
    "torch.zeros(3, 3, 3)", "torch.tensor([1e10, 1.0])", "torch.tensor([nan, 1.5])"]


def show(*codes):
    return [f"repr({code})" for code in codes]


SECTIONS = {
    "dtypes": ("text", show(*(f"torch.tensor({data}, dtype=torch.{d})" for d,
                data in itertools.product(DTYPES, DATA)))),
    "floating-point numbers": ("text", show(*(
                f"torch.tensor({data}, dtype=torch.{d})" for data in FLOATS for d in ("float32",
                    "float64")), *(f"torch.tensor({data}).to(torch.{d})" for data in FLOATS[:32]
                for d in ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn")))),
    "integers": ("text", show(*(f"torch.tensor({data})" for data in INTS),
            "torch.tensor([1, -20], dtype=torch.int8)", "torch.tensor([255], dtype=torch.uint8)",
            "torch.tensor([2 ** 64 - 1], dtype=torch.uint64)", "torch.tensor([True, False])",
            "torch.tensor([[True], [False]])")),
    "complex numbers": ("text", show(*(
                f"torch.tensor({data}, dtype=torch.{d})" for data in COMPLEX for d in ("complex64",
                    "complex128")))),
    "lines": ("text", [f"n = {n}; repr({e})" for n in (1, 2, 7, 12, 13, 14, 15, 18, 19, 20, 24, 25,
                26, 27, 40, 100) for e in SHAPES] + show(*(f"torch.zeros({s})" for s in ("1, 1",
                    "2, 3", "3, 2, 1", "2, 2, 2, 2", "1, 1, 1, 1, 1", "3, 20", "2, 30",
                    "2, 3, 15")))),
    "summaries": ("text", show(*BIG)),
    "suffixes": ("text", show(*SUFFIXES)),
    "options": ("text", [f"torch.set_printoptions({o}); repr({s})" for o, s in itertools.product(OPTIONS,
                SHOWN)] + ["torch.set_printoptions(profile='x')",
            "torch.set_printoptions(precision='a'); repr(torch.ones(1) / 3)"]),
    "str and format": ("text", [f"{f}" for t in ("torch.tensor(1.5)", "torch.tensor([1.5])",
                "torch.tensor(2)", "torch.tensor(True)", "torch.tensor(1j)",
                "torch.tensor(0.1, requires_grad=True)") for f in (f"str({t})", f"format({t})",
                f"'{{:.2f}}'.format({t})", f"f'{{{t}:>8}}'", f"'%s' % {t}", f"'%d' % {t}",
                f"'%.3f' % {t}", f"{t}.__repr__()")]),
}

write("printing", SECTIONS)
