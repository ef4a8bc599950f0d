"""Writes tests/goldens/schemas.txt: every `aten::` schema that PyTorch registers, sorted.

Plain text, one schema per line: git packs it to a ninth, `grep` finds an operator in it, and a
test reads it without a decompressor among the dependencies.
"""

from pathlib import Path

import torch

schemas = {str(schema) for schema in torch._C._jit_get_all_schemas()}
aten = sorted(schema for schema in schemas if schema.startswith("aten::"))
target = Path(__file__).resolve().parent.parent / "schemas.txt"
target.write_text("".join(schema + "\n" for schema in aten))
