"""The memory of a GPU as a table."""

from __future__ import annotations

__all__ = ["memory_summary"]

_BYTES = (
    ("allocated_bytes", "Allocated memory"), ("active_bytes", "Active memory"),
    ("requested_bytes", "Requested memory"), ("reserved_bytes", "GPU reserved memory"),
    ("inactive_split_bytes", "Non-releasable memory"),
)
_COUNTS = (
    ("allocation", "Allocations"), ("active", "Active allocs"), ("segment", "GPU reserved segments"),
    ("inactive_split", "Non-releasable allocs"),
)
_OVERSIZE = (("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize GPU segments"))
_COLUMNS = ("current", "peak", "allocated", "freed")
_WIDTHS = (23, 12, 12, 12, 12)
_UNITS = ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB")


def _size(number, reference):
    """A number of bytes in the unit that suits the greatest of its row."""
    unit = 0
    while unit + 1 < len(_UNITS) and reference >= 768 * 1024:
        number, reference, unit = number // 1024, reference // 1024, unit + 1
    if unit == 0 and reference >= 768:
        number, unit = number // 1024, 1
    return f"{number:7d} {_UNITS[unit]} "


def _count(number, reference):
    unit = 0
    while reference >= 750 * 1000 and unit < 2:
        number, reference, unit = number // 1000, reference // 1000, unit + 1
    return f"{number:7d} {('  ', 'K ', 'M ')[unit]} "


def _row(*cells):
    return "|" + "|".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS)) + "|"


def _rows(stats, rows, form, pools):
    for name, title in rows:
        yield "-"
        for pool, shown in pools:
            prefix = f"{name}.{pool}." if pool else f"{name}."
            values = [stats.get(prefix + column, 0) for column in _COLUMNS]
            label = f" {title}" if shown is None else f"       {shown}"
            yield _row(f"{label:<22} ", *(form(value, values[1]) for value in values))


def memory_summary(device=None, abbreviated=False):
    """What the tensors of a GPU use and what the allocator holds, as a table.

    Args:
        device: The GPU; the current one if it is ``None``.
        abbreviated: Whether the pools of small and large blocks are left out.
    """
    from corten.cuda import _get_device_index, memory

    index = _get_device_index(device, optional=True)
    stats = memory.memory_stats(device)
    pools = (("all", None),)
    if not abbreviated:
        pools += (("large_pool", "from large pool"), ("small_pool", "from small pool"))
    width = sum(_WIDTHS) + len(_WIDTHS) - 1
    retries, ooms = stats.get("num_alloc_retries", 0), stats.get("num_ooms", 0)
    middle = width // 2
    failures = (
        f"{f'CUDA OOMs: {ooms}':^{middle}}|{f'cudaMalloc retries: {retries}':^{width - middle - 1}}"
    )
    lines = [
        "=", f"|{f'PyTorch CUDA memory summary, device ID {index}':^{width}}|", "-", f"|{failures}|", "=",
        _row("        Metric         ", " Cur Usage  ", " Peak Usage ", " Tot Alloc  ", " Tot Freed  "),
    ]
    lines += _rows(stats, _BYTES, _size, pools)
    lines += _rows(stats, _COUNTS, _count, pools)
    lines += _rows(stats, _OVERSIZE, _count, (("", None),))
    lines.append("=")
    rule = {"=": f"|{'=' * width}|", "-": f"|{'-' * width}|"}
    return "\n".join(rule.get(line, line) for line in lines) + "\n"
