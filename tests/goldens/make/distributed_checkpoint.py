"""A checkpoint that PyTorch saved with two processes: tensors spread over them, whole ones, and other objects."""

import datetime
import os
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

TARGET = Path(__file__).parent.parent / "distributed_checkpoint"


def state(mesh):
    rows = torch.arange(15, dtype=torch.float32).reshape(5, 3)
    return {
        "model": {
            "rows": distribute_tensor(rows, mesh, [Shard(0)]),
            "columns": distribute_tensor(rows.double() / 7, mesh, [Shard(1)]),
            "same": distribute_tensor(rows.bfloat16(), mesh, [Replicate()]),
            "whole": torch.arange(6).reshape(2, 3).t(),
            "number": torch.tensor(2.5),
        },
        "steps": 7,
        "list": [1, torch.tensor([True, False]), {"name": "x"}],
        "settings": {"betas": (0.9, 0.99), "nothing": None},
    }


def save(rank, store):
    dist.init_process_group(
        "gloo", rank=rank, world_size=2, store=dist.FileStore(store, 2),
        timeout=datetime.timedelta(seconds=60),
    )
    # The checkpoint keeps the name that it was saved under.
    os.chdir(TARGET.parent)
    mesh = init_device_mesh("cpu", (2,))
    dcp.save(state(mesh), storage_writer=dcp.FileSystemWriter(TARGET.name))
    dist.destroy_process_group()


if __name__ == "__main__":
    shutil.rmtree(TARGET, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(save, args=(os.path.join(folder, "store"),), nprocs=2)
