"""The parts of :mod:`corten.distributed.distributed_c10d`, which has their names."""
