"""The file that the Rust library has written holds the same for Python."""

import os
import unittest
from pathlib import Path

torch = __import__(os.environ.get("CORTEN_TEST_MODULE", "corten"))

FILE = Path(__file__).resolve().parents[1] / "goldens" / "saved_by_rust.pt"


class FilesOfRust(unittest.TestCase):
    def test_values(self):
        for mmap in (False, True):
            found = torch.load(FILE, mmap=mmap)
            self.assertEqual(found["base"].tolist(), torch.arange(12).view(3, 4).tolist())
            self.assertEqual(found["view"].tolist(), found["base"][1:].T.tolist())
            self.assertEqual(found["view"].untyped_storage().data_ptr(), found["base"].untyped_storage().data_ptr())
            self.assertEqual((found["half"].dtype, found["half"].tolist()), (torch.float16, [1.5, -2.0]))
            self.assertEqual((found["words"].dtype, found["words"].tolist()), (torch.uint16, [7, 9]))
            self.assertEqual((found["small"].dtype, found["small"].float().tolist()), (torch.float8_e5m2, [0.5, 2.0]))
            self.assertEqual(found["flags"].tolist(), [True, False])
            self.assertEqual((found["number"].shape, found["number"].item()), (torch.Size([]), 66))
            self.assertEqual(found["empty"].shape, (0, 3))
            self.assertEqual(found["list"], [-1, 1 << 40, None])
            self.assertEqual(found["tuple"], (0.1, "ü"))
            self.assertEqual(found["bytes"], bytes(range(256)))
            self.assertEqual(found["set"], {3})
            self.assertIs(found["dtype"], torch.bfloat16)
            self.assertEqual((found["size"], found["device"]), (torch.Size([2, 3]), torch.device("cpu")))
            self.assertEqual((found["complex"], found["numbers"]), (1 - 2j, {4: True}))


if __name__ == "__main__":
    unittest.main()
