"""Which collectives a program runs, and where the parts of a distributed tensor lie."""

from corten.distributed.tensor.debug._comm_mode import CommDebugMode
from corten.distributed.tensor.debug._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]
