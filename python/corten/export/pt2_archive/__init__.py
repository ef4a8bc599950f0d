"""Archives of exported programs."""

from corten.export.pt2_archive._package import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package

__all__ = ["PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"]
