"""Data sets, samplers and loaders."""

from __future__ import annotations

import importlib as _importlib

from ._utils.collate import default_collate, default_convert
from ._utils.worker import get_worker_info
from .dataloader import DataLoader, _DatasetKind
from .dataset import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,
    random_split,
)
from .distributed import DistributedSampler
from .sampler import (
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    WeightedRandomSampler,
)

_PIPES = {
    **dict.fromkeys(("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"), "datapipe"),
    **dict.fromkeys((
        "argument_validation", "functional_datapipe", "guaranteed_datapipes_determinism",
        "non_deterministic", "runtime_validation", "runtime_validation_disabled",
    ), "_decorator"),
}

__all__ = [
    *_PIPES, "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "_DatasetKind",
    "default_collate", "default_convert", "get_worker_info", "random_split",
]


def __getattr__(name):
    if name in ("datapipes", "graph", "graph_settings"):
        return _importlib.import_module(f"corten.utils.data.{name}")
    if name in _PIPES:
        module = _importlib.import_module(f"corten.utils.data.datapipes.{_PIPES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
