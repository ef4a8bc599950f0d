"""Programs of several ranks for ``test_distributed_ddp.py``. Each asserts on every rank; run as a script it is one
rank of a world of processes: ``ddp_cases.py CASE RANK SIZE FILE BACKEND``."""

from __future__ import annotations

import sys

import corten.distributed as dist
import ddp_hook_cases  # noqa: F401
import ddp_input_cases  # noqa: F401
import ddp_optimizer_cases  # noqa: F401
import ddp_training_cases  # noqa: F401
from ddp_world import CASES


def main(name, rank, size, file, backend):
    dist.init_process_group(
        backend, init_method=f"file://{file}", rank=int(rank), world_size=int(size)
    )
    CASES[name]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
