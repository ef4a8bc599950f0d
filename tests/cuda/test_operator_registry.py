"""Operators of the registry on the device beside the CPU: results and gradients.

One of CORTEN_TEST_SHARE on the emulator. On a GPU all of them, in an order that spreads over families, as far as the
time of CORTEN_TEST_SECONDS goes.
"""

import os
import sys
import time
import unittest
import warnings
import zlib
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "python")]
from cuda_under_test import ON_GPU, CudaTest, flat, to_cuda, torch, usable  # noqa: E402
from corten import ops  # noqa: E402
import forward_cases  # noqa: E402

SECONDS = float(os.environ.get("CORTEN_TEST_SECONDS", 80 if ON_GPU else 3600))
SHARE = int(os.environ.get("CORTEN_TEST_SHARE", 1 if ON_GPU else 40))
# They tell about memory, devices or the process, make numbers of their own, or need another kind of tensor.
APART = ("pin_memory", "is_pinned", "record_stream", "to", "copy", "cuda", "cpu", "set", "resize", "data_ptr", "storage",
         "from_file", "sparse", "nested", "mkldnn", "quantize", "cudnn", "cufft", "lstm_mps", "assert", "print", "linalg_check")
# Operators that take an argument on the CPU, as PyTorch's, and those whose result depends on the strides of a copy.
DIFFERENT = ("aten::tensor_split.tensor_indices_or_sections", "aten::_foreach_addcdiv.Tensor", "aten::_foreach_addcmul.Tensor",
             "aten::_foreach_addcdiv.Tensor_", "aten::as_strided", "aten::as_strided_scatter", "aten::_reshape_alias")


def chosen():
    """Functional operators and views, whose results follow from their arguments."""
    found = []
    for operator in forward_cases.operators(ops.all()):
        words = operator.schema.base.strip("_").split("_")
        if (operator.entry["kind"] in ("functional", "view") and not operator.random and not operator.unwritten
                and operator.name not in DIFFERENT and zlib.crc32(operator.name.encode()) % SHARE == 0 and not any(word in APART for word in words) and operator.schema.arguments
                and operator.schema.arguments[0].type.startswith("Tensor")):
            found.append(operator)
    return sorted(found, key=lambda operator: zlib.crc32(operator.name.encode()))


def case_of(operator, layout, kinds=("float", "integer", "bool")):
    """Arguments of the first class of dtypes that the CPU takes."""
    for kind in kinds:
        for case in operator.cases():
            if case[1] == kind and case[3] == layout:
                dtype = "float32" if kind == "float" else case[2]
                yield forward_cases.Maker(torch, kind, dtype, layout), case[0]


@usable
class Registry(CudaTest):
    tolerance = {"torch.float16": 4e-3, "torch.bfloat16": 3e-2, "torch.float32": 2e-4, "torch.complex64": 2e-4}

    def compare(self, found, wanted, name):
        self.assertEqual(len(found), len(wanted), name)
        for one, other in zip(found, wanted):
            if isinstance(other, torch.Tensor):
                self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape), name)
                if one.layout == torch.strided:
                    self.same(*[value.reshape(-1).clone(memory_format=torch.contiguous_format) for value in (one.cuda(), other)], name)
            elif isinstance(other, float):
                self.assertAlmostEqual(one, other, delta=1e-3 * max(1, abs(other)), msg=name)

    def one(self, operator, layout):
        """Whether the operator took a case; it is compared then."""
        call = forward_cases.find(torch, operator, None)
        for maker, words in case_of(operator, layout):
            try:
                positional, keywords = maker.arguments(operator.schema, words)
                wanted = flat(call(*positional, **keywords))
            except Exception:  # noqa: BLE001 the CPU refuses these arguments
                continue
            moved = [to_cuda(value) for value in positional], {name: to_cuda(value) for name, value in keywords.items()}
            self.compare(flat(call(*moved[0], **moved[1])), wanted, f"{operator.name} {layout}")
            self.gradients(call, positional, keywords, f"gradient of {operator.name} {layout}")
            return True
        return False

    def gradients(self, call, positional, keywords, name):
        def differentiated(move):
            given = [move(value) for value in positional]
            leaves = [value.detach().requires_grad_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
                      for value in given]
            results = flat(call(*leaves, **{key: move(value) for key, value in keywords.items()}))
            taken = [value for value in leaves if isinstance(value, torch.Tensor) and value.requires_grad]
            parts = [part for part in results if isinstance(part, torch.Tensor) and part.requires_grad]
            if not parts or not taken:
                return []
            total = sum((part.abs() if part.is_complex() else part).sum() for part in parts)
            return [grad for grad in torch.autograd.grad(total, taken, allow_unused=True) if grad is not None]

        try:
            wanted = differentiated(lambda value: value)
        except Exception:  # noqa: BLE001 no gradient of these arguments
            return
        self.compare(differentiated(to_cuda), wanted, name)

    def test_results_and_gradients(self):
        begun, taken, operators = time.monotonic(), 0, chosen()
        for operator in operators:
            if time.monotonic() - begun > SECONDS:
                break
            with self.subTest(operator=operator.name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for layout in ("contiguous", "strided"):
                    taken += self.one(operator, layout)
        if ON_GPU:
            print(f"{taken} calls of the {len(operators)} operators of the registry were compared")
        self.assertGreater(taken, 4)


if __name__ == "__main__":
    unittest.main()
