"""``torchrun``: starts the processes of a program on one machine or on several, watches them, and starts all
of them again when one fails. ``python -m corten.distributed.run --help`` lists its options."""

from __future__ import annotations

import os
import sys
import uuid
from argparse import REMAINDER, ArgumentParser

import corten
from corten.distributed.argparse_util import check_env, env
from corten.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from corten.distributed.elastic.multiprocessing.errors import record
from corten.distributed.elastic.rendezvous.utils import _parse_rendezvous_config
from corten.distributed.elastic.utils.logging import get_logger
from corten.distributed.launcher.api import LaunchConfig, elastic_launch

__all__ = ["config_from_args", "get_args_parser", "main", "parse_args", "run"]

logger = get_logger(__name__)

#: Option, default, type, what it says.
_VALUES = (
    ("nnodes", "1:1", str, "How many machines, or MIN:MAX."),
    ("nproc-per-node", "1", str, "How many processes on each: a number, auto, cpu or gpu."),
    ("rdzv-backend", "static", str, "How machines meet: static or c10d."),
    ("rdzv-endpoint", "", str, "Where machines meet: HOST:PORT."),
    ("rdzv-id", "none", str, "The name of the run, the same on all machines."),
    ("rdzv-conf", "", str, "Further settings: KEY=VALUE,…"),
    ("max-restarts", 0, int, "How often all processes start again when one fails."),
    ("monitor-interval", 0.1, float, "Seconds between looks at the processes."),
    ("start-method", "spawn", str, "How processes of functions start: spawn, fork or forkserver."),
    ("event-log-handler", "null", str, "Accepted; events are not recorded."),
    ("role", "default", str, "The name of the processes."),
    ("log-dir", None, str, "The folder of files with output."),
    ("redirects", "0", str, "Streams that go to files: 1 output, 2 errors, 3 both, or by local rank 0:3,1:2."),
    ("tee", "0", str, "Streams that go to files and are shown: as --redirects."),
    ("log-line-prefix-template", None, str, "What stands before shown lines: ${role_name}, ${local_rank}, ${rank}."),
    ("local-ranks-filter", "", str, "The local ranks whose output is shown: 0,1,…"),
    ("node-rank", 0, int, "The number of this machine, of static meetings."),
    ("master-addr", "127.0.0.1", str, "The machine with number 0, of static meetings."),
    ("master-port", None, int, "Its port, of static meetings; 29500 by default."),
    ("local-addr", None, str, "The address of this machine."),
    ("signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", str, "Signals that are passed on."),
    ("shutdown-timeout", None, int, "Seconds from a signal to SIGKILL; 30 by default."),
)
_FLAGS = (
    ("standalone", "One machine: machines need not meet."),
    ("no-python", "The program is no Python program."),
    ("run-path", "Run the program within processes that are there, by its absolute path."),
    ("virtual-local-rank", "Each process sees one GPU, as the first."),
)
_SHORT = {"redirects": "-r", "tee": "-t"}
_CHOICES = {"start-method": ["spawn", "fork", "forkserver"]}


def get_args_parser():
    """The options of ``torchrun``, whose defaults come from ``PET_<OPTION>``."""
    parser = ArgumentParser(description="Starts the processes of a program")
    for name, default, kind, text in _VALUES:
        parser.add_argument(
            *_spellings(name), action=env, default=default, type=kind, help=text.replace("%", "%%"),
            choices=_CHOICES.get(name),
        )
    for name, text in _FLAGS:
        parser.add_argument(*_spellings(name), action=check_env, help=text)
    parser.add_argument("-m", "--module", action=check_env, help="The program is a module, as of `python -m`.")
    parser.add_argument("training_script", type=str, help="The program.")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="Its arguments.")
    return parser


def _spellings(name):
    names = [_SHORT[name]] if name in _SHORT else []
    names.append(f"--{name}")
    return [*names, f"--{name.replace('-', '_')}"] if "-" in name else names


def parse_args(args):
    """The options of a command line."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes):
    """``"MIN:MAX"`` or a number as a pair.

    Raises:
        RuntimeError: It is neither.
    """
    parts = [int(part) for part in nnodes.split(":")]
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return parts[0], parts[-1]


def determine_local_world_size(nproc_per_node):
    """How many processes a machine has, of a number or a word.

    Raises:
        ValueError: There is no such device, or the word is another.
    """
    if str(nproc_per_node).isdigit():
        return int(nproc_per_node)
    if nproc_per_node == "cpu":
        return len(os.sched_getaffinity(0))
    if nproc_per_node == "gpu":
        if not corten.cuda.is_available():
            raise ValueError("Cuda is not available.")
        return corten.cuda.device_count()
    if nproc_per_node == "auto":
        return corten.accelerator.device_count() if corten.accelerator.is_available() else len(os.sched_getaffinity(0))
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def get_rdzv_endpoint(args):
    """Where machines meet."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return args.rdzv_endpoint


def config_from_args(args):
    """The ``LaunchConfig``, the command and its arguments, of options.

    Raises:
        ValueError: An option cannot be read.
    """
    min_nodes, max_nodes = parse_min_max_nnodes(args.nnodes)
    if not 0 < min_nodes <= max_nodes:
        raise AssertionError(
            f"min_nodes must be > 0 and <= max_nodes, got min_nodes={min_nodes}, max_nodes={max_nodes}"
        )
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    count = determine_local_world_size(args.nproc_per_node)
    if "OMP_NUM_THREADS" not in os.environ and count > 1:
        logger.warning("Setting OMP_NUM_THREADS to 1 for each process, unless it is set, as there are several.")
        os.environ["OMP_NUM_THREADS"] = "1"
    settings = _parse_rendezvous_config(args.rdzv_conf)
    if args.rdzv_backend == "static":
        settings["rank"] = args.node_rank
    shown = None
    if args.local_ranks_filter:
        try:
            shown = set(map(int, args.local_ranks_filter.split(",")))
        except ValueError as error:
            raise ValueError(
                "--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2"
            ) from error
    prefix = args.log_line_prefix_template or os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
    logs = DefaultLogsSpecs(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown)
    config = LaunchConfig(
        min_nodes=min_nodes, max_nodes=max_nodes, nproc_per_node=count, run_id=args.rdzv_id, role=args.role,
        rdzv_endpoint=get_rdzv_endpoint(args), rdzv_backend=args.rdzv_backend, rdzv_configs=settings,
        max_restarts=args.max_restarts, monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=prefix, local_addr=args.local_addr, logs_specs=logs,
        event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle, virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    return config, *_command(args)


def _command(args):
    """What each process runs."""
    if args.run_path:
        return run_script_path, [args.training_script, *args.training_script_args]
    rank = [] if getattr(args, "use_env", True) else ["--local-rank=${local_rank}"]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return args.training_script, [*rank, *args.training_script_args]
    before = ["-u", *_as_torch(), *(["-m"] if args.module else []), args.training_script]
    return os.environ.get("PYTHON_EXEC", sys.executable), [*before, *rank, *args.training_script_args]


def _as_torch():
    """What runs programs of PyTorch, where this process does and its children cannot find that themselves."""
    from importlib.machinery import PathFinder

    here = sys.modules.get("torch")
    as_torch = here is not None and here is sys.modules.get("corten")
    as_torch = as_torch or os.path.basename(sys.argv[0]) == "torchrun"
    return ["-m", "corten.run"] if as_torch and PathFinder.find_spec("torch") is None else []


def run_script_path(training_script, *training_script_args):
    """Runs a program in this process."""
    import runpy

    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args):
    """Starts what options say, and waits for its end.

    Raises:
        ChildFailedError: Processes failed more often than they may.
    """
    alone = args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None
    if args.standalone or (alone and parse_min_max_nnodes(args.nnodes)[1] == 1):
        args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4())
    if args.standalone:
        args.nnodes = "1:1"
    if args.master_port is None:
        args.master_port = 29500
    config, command, arguments = config_from_args(args)
    elastic_launch(config, command)(*arguments)


@record
def main(args=None):
    """The program ``torchrun``."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
