"""What is known about a device."""

from __future__ import annotations

import uuid

__all__ = []


class _CUuuid:
    """The identity of a device."""

    def __init__(self, data):
        self.bytes = list(data)

    def __str__(self):
        return str(uuid.UUID(bytes=bytes(self.bytes)))

    def __eq__(self, other):
        return isinstance(other, _CUuuid) and self.bytes == other.bytes

    def __hash__(self):
        return hash(bytes(self.bytes))


class _CudaDeviceProperties:
    """Name, sizes and abilities of a device."""

    def __init__(self, found):
        uuid = _CUuuid(found["uuid"])
        self.__dict__.update(found, uuid=uuid, gcnArchName=found["name"])

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} cannot be set")

    def __repr__(self):
        mebi = 1 << 20
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // mebi}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // mebi}MB)"
        )
