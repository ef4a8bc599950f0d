"""``python -m corten.distributed.launch``: the old form of ``torchrun``, which passes ``--local-rank`` to
programs unless ``--use-env`` is given."""

from __future__ import annotations

import warnings

from corten.distributed.run import get_args_parser, run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args):
    """The options of a command line."""
    parser = get_args_parser()
    parser.add_argument(
        "--use-env", "--use_env", default=False, action="store_true",
        help="Say the local rank in LOCAL_RANK alone, not as --local-rank.",
    )
    return parser.parse_args(args)


def launch(args):
    """Starts what options say."""
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    run(args)


def main(args=None):
    """The program."""
    warnings.warn(
        "The module torch.distributed.launch is deprecated and will be removed in future. Use torchrun. Note that "
        "--use-env is set by default in torchrun. If your script expects `--local-rank` argument to be set, "
        "please change it to read from `os.environ['LOCAL_RANK']` instead.",
        FutureWarning,
        stacklevel=2,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main()
