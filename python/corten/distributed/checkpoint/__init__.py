"""Checkpoints of what several processes hold, in PyTorch's format: saved by any number of processes, loaded by
any other. Works in one process, too, without a group."""

from . import _extension  # noqa: F401
from .api import CheckpointException  # noqa: F401
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner  # noqa: F401
from .filesystem import FileSystemReader, FileSystemWriter  # noqa: F401
from .fsspec_filesystem import FsspecReader, FsspecWriter  # noqa: F401
from .hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter  # noqa: F401
from .metadata import (  # noqa: F401
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem  # noqa: F401
from .protocol import CheckpointableTensor  # noqa: F401
from .state_dict_loader import load, load_state_dict  # noqa: F401
from .state_dict_saver import async_save, save, save_state_dict  # noqa: F401
from .storage import StorageReader, StorageWriter  # noqa: F401
