"""``corten [run] script.py args`` and ``corten ops [--json]``; also ``python -m corten …``."""

import sys


def main():
    """The command ``corten``."""
    command, *rest = sys.argv[1:] or [""]
    if command == "ops":
        from corten.ops import _main as list_operators

        list_operators(rest)
        return
    from corten.run import main as run

    run(rest if command == "run" else sys.argv[1:])


if __name__ == "__main__":
    main()
