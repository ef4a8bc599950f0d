"""Every operator of the registry against PyTorch's results, over dtypes and layouts."""

import json
import os
import re
import sys
import unittest
import warnings
import zipfile
from pathlib import Path

import numpy as np
from corten import ops

import forward_cases
from forward_excused import EXCUSED, NAMES, UNCOVERED
from module_under_test import torch

GOLDEN = Path(os.environ.get("FORWARD_ORACLE", Path(__file__).parents[1] / "goldens" / "forward_oracle.zip"))
TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-5, "float64": 1e-9,
              "complex32": 4e-3, "bcomplex32": 3e-2, "complex64": 5e-5, "complex128": 1e-9}
# Results that the test finds at least.
FLOORS = {"operators": 2080, "values": 38100, "errors": 15500}
# Operators with results in every layout, by dtype class.
CELLS = {"bool": 770, "integer": 990, "half": 1130, "float": 1260, "complex": 630}
NUMPY = {"bfloat16": np.int16}


class Values:
    """The values of expected results."""

    def __init__(self, data):
        self.data = data

    def at(self, place, dtype, count):
        return elements(self.data, dtype, count, place)


def elements(data, dtype, count, place=0):
    """Elements as numbers that NumPy computes with."""
    if dtype in ("complex32", "bcomplex32"):
        parts = elements(data, "float16" if dtype == "complex32" else "bfloat16", 2 * count, place)
        return parts.astype(np.float32).view(np.complex64)
    return floats(np.frombuffer(data, NUMPY.get(dtype, dtype), count, place), dtype)


def floats(array, dtype):
    """The elements as numbers that NumPy computes with."""
    if dtype == "bfloat16":
        return (array.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def close(found, wanted, dtype):
    """Whether elements are equal up to what rounding in another order makes of them."""
    if dtype not in TOLERANCES:
        return np.array_equal(found, wanted)
    if found.tobytes() == wanted.tobytes():
        return True
    found, wanted = (a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in (found, wanted))
    finite = wanted[np.isfinite(wanted)]
    tolerance = TOLERANCES[dtype]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, wanted, tolerance, tolerance * min(max(scale, 1e-2), 1e3), equal_nan=True))


def difference(found, wanted, values, given=False):
    """What is different in a result, or None; the values of `found` are bytes."""
    if wanted[0] == "error" or found[0] == "error":
        if found[0] == wanted[0]:
            return None if found[1] == wanted[1] else f"CLASS {found[1:3]} instead of {wanted[1]}"
        return f"ACCEPTS where PyTorch raises {wanted[1]}" if found[0] != "error" else f"REFUSES {found[1:3]}"
    if found[0] != wanted[0]:
        return f"{found[0]} instead of {wanted[0]}"
    if wanted[0] == "tensor":
        # A tensor that was given as `out` is resized; whose strides it gets, PyTorch's wrappers do not agree.
        apart = [i for i in (1, 2, 3, 5) if found[i:i + 1] != wanted[i:i + 1] and not (i == 3 and given)]
        if apart:
            return f"META {found[1:4] + found[5:]} instead of {wanted[1:4] + wanted[5:]}"
        if wanted[4] is None or found[4] is None:
            return None
        dtype, count = wanted[1], int(np.prod(wanted[2]))
        one = elements(found[4], dtype, count)
        other = values.at(wanted[4], dtype, count)
        return None if close(one, other, dtype) else f"VALUE {dtype} {one.tolist()} instead of {other.tolist()}"
    if wanted[0] in ("list", "sparse"):
        if len(found) != len(wanted):
            return f"{len(found) - 1} results instead of {len(wanted) - 1}"
        told = (difference(f, w, values, given) if isinstance(w, list) else (None if f == w else f"{f} instead of {w}")
                for f, w in zip(found[1:], wanted[1:]))
        return next((t for t in told if t), None)
    if wanted[0] == "number":
        one, other = (np.array(complex(x[2])) for x in (found, wanted))
        return None if found[1] == wanted[1] and close(one, other, "float32") else f"{found} instead of {wanted}"
    return None if found == wanted else f"{found} instead of {wanted}"


def of_values(result):
    return result[0] != "error"


class Oracle:
    """All results of PyTorch."""

    def __init__(self):
        with zipfile.ZipFile(GOLDEN) as file:
            calls = json.loads(file.read("calls.json"))
            self.values = Values(file.read("values.bin"))
        self.operators, self.results = calls["operators"], calls["results"]

    def has(self, operator, road):
        """Whether there are results of a function or method."""
        end = f" {'.'.join(road)}"
        return any(key.endswith(end) for key in self.operators.get(operator.name, ()))

    def result(self, operator, key):
        place = self.operators.get(operator.name, {}).get(key)
        return None if place is None else self.results[place]


def compare(oracle, operator, key, case, road, wanted, output):
    """The difference of a call from PyTorch's."""
    found = forward_cases.run(torch, operator, case, lambda data: data, road, output)
    return difference(found, wanted, oracle.values, bool(operator.schema.outputs))


def of_any(oracle, operator):
    table = oracle.operators.get(operator.name, {})
    return any(of_values(oracle.results[place]) for place in table.values())


def exists(operator, road):
    """Whether there is such a function or method."""
    try:
        return forward_cases.find(torch, operator, road) is not None
    except AttributeError:
        return False


def is_elsewhere(oracle, operator, road):
    """Whether a function or method is not PyTorch's, although the operator is."""
    return (road is not None and not operator.schema.outputs and not oracle.has(operator, road)
            and exists(operator, road))


def calls_of(oracle, operator, functional):
    """The calls of an operator whose results are known."""
    for case in operator.cases():
        output = None
        if operator.schema.outputs:
            source = functional.get(operator.schema.key())
            output = source and oracle.result(source, case[4])
            if not output or output[0] == "error":
                continue
            output = output[1]
        for road in (None, *operator.roads()):
            key = case[4] if road is None else f"{case[4]} {'.'.join(road)}"
            wanted = oracle.result(operator, key)
            if wanted is None and is_elsewhere(oracle, operator, road) and case[3] == "contiguous":
                # PyTorch has the operator only under another name.
                wanted = oracle.result(operator, case[4])
            if wanted is not None:
                yield key, case, road, wanted, output


def excuse(operator, key, told):
    """The number of the reason why a call differs, or None."""
    text = f"{operator.name} {key}"
    return next((nr for nr, (call, kind, _, _) in enumerate(EXCUSED)
                 if re.search(call, text) and re.match(kind, told)), None)


class ForwardOracle(unittest.TestCase):
    """What every operator computes."""

    @classmethod
    def setUpClass(cls):
        cls.oracle = Oracle()
        cls.operators = forward_cases.operators(ops.all())
        cls.functional = {o.schema.key(): o for o in cls.operators[::-1]
                          if o.entry["kind"] in ("functional", "view")}

    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")

    def test_results_are_those_of_pytorch(self):
        differences, excused = [], [0] * len(EXCUSED)
        counts = {"operators": set(), "values": 0, "errors": 0}
        for operator in self.operators:
            for key, case, road, wanted, output in calls_of(self.oracle, operator, self.functional):
                told = compare(self.oracle, operator, key, case, road, wanted, output)
                if told is None:
                    counts["values" if of_values(wanted) else "errors"] += 1
                    counts["operators"].add(operator.name)
                    continue
                reason = excuse(operator, key, told)
                if reason is None:
                    differences.append(f"{operator.name} | {' '.join(case[0] or ())} | {key} | {told[:300]}")
                else:
                    excused[reason] += 1
        self.assertEqual(differences[:40], [], f"{len(differences)} calls differ")
        self.assertGreaterEqual(len(counts["operators"]), FLOORS["operators"])
        self.assertGreaterEqual(counts["values"], FLOORS["values"])
        self.assertGreaterEqual(counts["errors"], FLOORS["errors"])
        for (call, kind, most, reason), count in zip(EXCUSED, excused):
            self.assertTrue(0 < count <= most, f"{count} calls, at most {most}: {call} {kind}: {reason}")

    def test_every_operator_has_a_result(self):
        """An operator that is added needs a sample, and its results from PyTorch."""
        without = {o.name for o in self.operators if not of_any(self.oracle, o)}
        listed = {name for names in UNCOVERED.values() for name in names.split()}
        self.assertEqual(sorted(without - listed), [])
        self.assertEqual(sorted(listed - without), [])

    def test_every_dtype_class_and_layout_occurs(self):
        """How many operators have results, by dtype class and layout."""
        found = {}
        for operator in self.operators:
            for case in operator.cases():
                wanted = self.oracle.result(operator, case[4])
                if wanted and of_values(wanted):
                    found.setdefault((case[1], case[3]), set()).add(operator.name)
        for kind, least in CELLS.items():
            for layout in forward_cases.LAYOUTS:
                self.assertGreaterEqual(len(found[kind, layout]), least, (kind, layout))

    def test_every_public_name_is_called(self):
        """Functions, methods and the names in modules."""
        names, called = set(), set()
        for operator in self.operators:
            names.update(".".join(road) for road in operator.roads() if exists(operator, road))
            for _, _, road, wanted, _ in calls_of(self.oracle, operator, self.functional):
                if road is not None and of_values(wanted):
                    called.add(".".join(road))
        listed = {name for names in NAMES.values() for name in names.split()}
        self.assertEqual(sorted(names - called - listed), [])
        self.assertEqual(sorted(listed - (names - called)), [])


def report(path):
    """Every difference that is not excused into a file, and how many are, for reading."""
    oracle, excused, values = Oracle(), [0] * len(EXCUSED), [set(), 0, 0]
    warnings.simplefilter("ignore")
    listed = forward_cases.operators(ops.all())
    functional = {o.schema.key(): o for o in listed[::-1] if o.entry["kind"] in ("functional", "view")}
    with open(path, "w") as file:
        for operator in listed:
            for key, case, road, wanted, output in calls_of(oracle, operator, functional):
                told = compare(oracle, operator, key, case, road, wanted, output)
                reason = told and excuse(operator, key, told)
                if told and reason is None:
                    file.write(f"{operator.name} | {' '.join(case[0] or ())} | {key} | {told[:600]}\n")
                elif told:
                    excused[reason] += 1
                else:
                    values[0].add(operator.name)
                    values[1 if of_values(wanted) else 2] += 1
            if not of_any(oracle, operator):
                file.write(f"NONE {operator.name}\n")
    print(len(values[0]), values[1:], [(n, e[2], e[0][:30], e[1][:20]) for n, e in zip(excused, EXCUSED)])


if __name__ == "__main__":
    if len(sys.argv) > 1 and "/" in sys.argv[1]:
        report(sys.argv[1])
    else:
        unittest.main()
