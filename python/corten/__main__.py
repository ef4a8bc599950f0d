"""The command ``corten``, also ``python -m corten``:

corten [run] script.py args…, corten [run] -m module args…   runs a program written for PyTorch
corten ops [--json]                                          lists the operators
corten ops --missing PACKAGE…                                lists what packages use and this one lacks
corten inspect FILE…                                         lists the metadata and the tensors of files
corten convert FROM TO [--to q4_k]                           writes tensors in another format, quantises
corten generate MODEL.gguf -p TEXT                           lets a language model continue a text
corten as-torch install|remove|status                        makes this the package torch of an environment
corten doctor                                                says what this machine offers
"""

import sys


def main():
    """The command ``corten``."""
    command, *rest = sys.argv[1:] or [""]
    if command in ("", "-h", "--help", "help"):
        print(__doc__.strip())
        return
    if command == "ops":
        from corten.ops import _main as run
    elif command == "inspect":
        from corten._files import inspect_main as run
    elif command == "convert":
        from corten._convert import main as run
    elif command == "generate":
        from corten._language.generate import main as run
    elif command == "as-torch":
        from corten._torch_distribution import main as run
    elif command == "doctor":
        from corten._doctor import main as run
    else:
        from corten.run import main as run

        rest = rest if command == "run" else sys.argv[1:]
    run(rest)


if __name__ == "__main__":
    main()
