"""Every operator called with quantised tensors: it works where its declaration says how, and else is refused."""

import re
import unittest
import warnings

import corten as torch

#: What other arguments are, by type.
VALUES = {
    "int": 0, "SymInt": 0, "float": 0.5, "bool": False, "Scalar": 1, "ScalarType": torch.float32,
    "str": "none", "MemoryFormat": torch.contiguous_format, "Layout": torch.strided,
    "Device": torch.device("cpu"), "complex": 1j,
}

#: Operators that take quantised tensors without looking at their numbers.
WORKS = set("""
""".split())


def arguments(schema, make):
    """Values for the arguments of a schema that have no default, or None where there is a type without one."""
    given, named = [], {}
    inner = schema[schema.index("(") + 1:schema.rindex(") ->")]
    keyword = False
    depth, parts, part = 0, [], ""
    for letter in inner:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    if part.strip():
        parts.append(part.strip())
    for text in parts:
        if text == "*":
            keyword = True
            continue
        declared, _, default = text.partition("=")
        kind, name = declared.rsplit(" ", 1)
        kind = re.sub(r"\(.*?\)", "", kind)
        base, _, length = kind.partition("[")
        is_tensor = base.rstrip("?") == "Tensor"
        if default and not is_tensor:
            continue
        if is_tensor:
            value = make() if not length else [make(), make()]
        elif base.rstrip("?") in VALUES:
            value = VALUES[base.rstrip("?")]
            value = value if not length else [value or 1]
        else:
            return None
        if keyword:
            named[name] = value
        else:
            given.append(value)
    return given, named


class Walk(unittest.TestCase):
    def test_every_operator(self):
        x = torch.tensor([[1.0, -2.0, 0.55], [3.0, 10.0, -0.3]])
        makers = [
            lambda: torch.quantize_per_tensor(x, 0.1, 10, torch.quint8),
            lambda: torch.quantize_per_channel(
                x, torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), 0, torch.qint8),
            lambda: torch.quantize_per_tensor(x, 0.5, 3, torch.quint4x2),
            lambda: torch.empty(2, 3, dtype=torch.qint32),
            lambda: torch.zeros(2, 3, dtype=torch.bits8),
            lambda: torch.zeros(4, dtype=torch.uint8).view(torch.qint8),
            lambda: torch.zeros(2, 3, dtype=torch.float4_e2m1fn_x2),
        ]
        worked = set()
        for number, make in enumerate(makers):
            for operator in torch.ops.all():
                name = operator["name"]
                if not any("Tensor" in word for word in operator["schema"].partition("->")[0].split()):
                    continue
                found = arguments(operator["schema"], make)
                if found is None:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        torch._C._op_call(name, *found[0], **found[1])
                    except Exception as error:
                        self.assertNotIsInstance(error, (SystemError, MemoryError), name)
                        self.assertNotIn("panicked", str(error), name)
                        self.assertNotIn("INTERNAL", str(error), name)
                    else:
                        if number < 4:
                            worked.add(name)
        self.assertFalse(sorted(worked - WORKS), "these took quantised tensors")


if __name__ == "__main__":
    unittest.main()
