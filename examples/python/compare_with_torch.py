"""Trains the demonstrations' models for some steps on Corten and on torch, and compares.

With seed 0 the initial weights must be the same to the last bit, and the losses within 1e-4.
"""

import argparse
import json
import subprocess
import sys
import zlib

PROGRAMS = ("digits_cnn", "digits_transformer", "char_gpt")


def run(name, steps):
    """One model on the framework of this process: checksums of the first weights, the losses."""
    import importlib

    program = importlib.import_module(name)
    if name == "char_gpt":
        args, net, _, text = program.begin([])
        train = lambda: program.train_writer(net, text[: len(text) * 9 // 10], args, steps)  # noqa: E731
    else:
        args, net, data, _ = program.begin([])
        train = lambda: program.train_classifier(net, data, args, steps)  # noqa: E731
    weights = {
        key: zlib.crc32(repr(value.flatten().tolist()).encode())
        for key, value in net.state_dict().items()
    }
    return {"weights": weights, "losses": train()}


def in_process(python, name, steps, framework):
    """`run` in a process of its own, so that only one framework is loaded."""
    command = [python, __file__, "--run", name, "--steps", str(steps), *framework]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} {framework}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def compare(python, name, steps, tolerance):
    """Whether both frameworks agree on one model."""
    ours, theirs = (in_process(python, name, steps, flag) for flag in ([], ["--torch"]))
    differing = [k for k in theirs["weights"] if theirs["weights"][k] != ours["weights"].get(k)]
    worst = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"]))
    good = not differing and len(ours["losses"]) == steps and worst <= tolerance
    first = ", ".join(differing) or "all equal"
    print(f"{name:20} initial weights: {first}; largest difference of {steps} losses: {worst:.1e}"
          f"  {'ok' if good else 'DIFFERENT'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--python", default=sys.executable, help="has both packages")
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run, args.steps)))
        return
    results = [compare(args.python, name, args.steps, args.tolerance) for name in args.programs]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
