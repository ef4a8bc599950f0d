"""Writes what PyTorch makes of a call of every operator of the registry: ../forward_oracle.zip.

The calls are those of tests/python/forward_cases.py, for the registry of the package in python/. All are
made twice, in another order and process: a call that ends its process, or whose results differ as they
depend on what memory held before, is left out.
"""

import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

import forward_cases  # noqa: E402  pylint: disable=wrong-import-position

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def guarded(work):
    """What `work` writes line by line in a process of its own, as far as it comes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writer, "w") as file:
            work(file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        for line in file:
            if line.endswith("]\n"):
                yield json.loads(line)
    os.waitpid(child, 0)


def call(operator, functional, case, road):
    """The result of a call, or None where there is none to compare with."""
    wanted = None
    if operator.schema.outputs:
        wanted = functional.get(operator.schema.key(), {}).get(case[4])
        if not wanted or wanted[0] != "list":
            return None
        wanted = wanted[1]
    try:
        return forward_cases.run(torch, operator, case, bytes.hex, road, wanted)
    except AttributeError:
        return None
    except Exception as error:  # pylint: disable=broad-exception-caught
        return ["broken", repr(error)]


def results(listed):
    """Results by operator and key; a call after which the process ended is missing."""
    functional, done = {}, {operator.name: {} for operator in listed}
    plan = [(operator, *entry) for operator in listed for entry in plan_of(operator)]
    while plan:
        def work(file, plan=tuple(plan)):
            for operator, key, case, road in plan:
                result = call(operator, functional, case, road)
                keep(functional, operator, key, result)
                file.write(json.dumps([operator.name, key, result]) + "\n")
                file.flush()

        count = 0
        for name, key, result in guarded(work):
            operator = plan[count][0]
            assert (operator.name, plan[count][1]) == (name, key)
            keep(functional, operator, key, result)
            done[name][key] = result
            count += 1
        if count < len(plan):
            print("ended the process:", plan[count][0].name, plan[count][1], flush=True)
        plan = plan[count + 1:]
    return done


def keep(functional, operator, key, result):
    """Remembers what `out` forms compute."""
    if operator.entry["kind"] in ("functional", "view"):
        functional.setdefault(operator.schema.key(), {}).setdefault(key, result)


def plan_of(operator):
    """Every call of an operator, and those of its public functions and methods on contiguous tensors."""
    cases = list(operator.cases())
    plan = [(case[4], case, None) for case in cases]
    for road in operator.roads():
        plan += [(f"{case[4]} {'.'.join(road)}", case, road) for case in cases if case[3] == "contiguous"]
    return plan


def known(operator):
    try:
        return forward_cases.find(torch, operator, None) is not None
    except AttributeError:
        print("not PyTorch's:", operator.name)
        return False


def main():
    found = os.environ | {"PYTHONPATH": str(HERE.parents[2] / "python"), "CORTEN_QUIET": "1"}
    entries = json.loads(subprocess.run([sys.executable, "-m", "corten.ops", "--json"], check=True,
                                        capture_output=True, env=found).stdout)
    only = sys.argv[1:]
    listed = [o for o in forward_cases.operators(entries) if not only or o.schema.key()[0] in only]
    listed = sorted(filter(known, listed), key=lambda o: bool(o.schema.outputs))
    first = results(listed)
    # In another order: what is left over in memory is then different.
    second = results(sorted(listed[::-1], key=lambda o: bool(o.schema.outputs)))
    pool, table, told = forward_cases.Pool(), {}, {}
    for operator in listed:
        kept = table[operator.name] = {}
        for key, result in first[operator.name].items():
            if result and result[0] == "broken":
                print(operator.name, key, result[1])
            elif result and same(result, second[operator.name].get(key)):
                kept[key] = told.setdefault(json.dumps(packed(result, pool)), len(told))
            elif result:
                print("differs between two runs:", operator.name, key)
    write(table, told, pool)


def same(one, other):
    if one[0] == "error":
        return bool(other) and one[:2] == other[:2]
    return one == other


def packed(result, pool):
    """A result with places in the pool instead of bytes."""
    if result[0] == "error":
        return result[:2]
    if result[0] == "tensor" and result[4] is not None:
        return result[:4] + [pool.add(bytes.fromhex(result[4]))] + result[5:]
    if result[0] in ("list", "sparse"):
        return [packed(r, pool) if isinstance(r, list) else r for r in result]
    return result


def write(table, told, pool):
    target = Path(os.environ.get("FORWARD_ORACLE", HERE.parent / "forward_oracle.zip"))
    text = json.dumps({"operators": table, "results": [json.loads(t) for t in told]}, separators=(",", ":"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as file:
        for name, data in (("calls.json", text.encode()), ("values.bin", b"".join(pool.parts))):
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_LZMA
            file.writestr(entry, data)
    print(target, len(table), "operators", sum(map(len, table.values())), "calls",
          len(told), "results", pool.size, "bytes of values,", target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
