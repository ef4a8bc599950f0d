"""Every name that a module lists is there, and every native one that a module uses."""

import pathlib
import re
import types
import unittest

import corten


def absent(module, seen):
    """Names of `module` and of the modules below it that cannot be had."""
    seen.add(module.__name__)
    missing = []
    for name in dir(module):
        if name.startswith("_"):
            continue
        try:
            value = getattr(module, name)
        except Exception as error:  # noqa: BLE001 whatever it is, the name is not there
            missing.append(f"{module.__name__}.{name}: {error}")
            continue
        inside = isinstance(value, types.ModuleType) and value.__name__.startswith("corten.")
        if inside and value.__name__ not in seen:
            missing += absent(value, seen)
    return missing


class Surface(unittest.TestCase):
    def test_what_is_listed_is_there(self):
        self.assertEqual(absent(corten, set()), [])

    def test_what_modules_use_of_the_native_part_is_there(self):
        used = set()
        for file in pathlib.Path(corten.__file__).parent.rglob("*.py"):
            used.update(re.findall(r"\b_C\.(\w{2,})", file.read_text()))
        self.assertGreater(len(used), 100)
        self.assertEqual([name for name in sorted(used) if not hasattr(corten._C, name)], [])

    def test_cpu_capability(self):
        self.assertIn(corten.backends.cpu.get_cpu_capability(), ["DEFAULT", "AVX2", "AVX512"])


if __name__ == "__main__":
    unittest.main()
