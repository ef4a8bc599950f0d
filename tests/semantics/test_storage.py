"""Storage: who owns memory, who shares it, and what follows it around."""

import unittest

from golden import Family, torch


class Storage(Family):
    family = "storage"

    def test_resize_never_gives_memory_back(self):
        x = torch.arange(6.)
        x.resize_(2)
        self.assertEqual(x.untyped_storage().nbytes(), 24)
        self.assertEqual(x.resize_(6).tolist(), [0, 1, 2, 3, 4, 5])
        self.check("resize_")

    def test_set_and_data_exchange_the_memory(self):
        self.check("set_ and data")

    def test_storages_are_bytes(self):
        x = torch.zeros(2)
        x.untyped_storage().fill_(0)
        x.view(torch.uint8)[3] = 64
        self.assertEqual(x.tolist(), [2, 0])
        self.check("storages")

    def test_arrays_of_numpy_share_their_memory(self):
        self.check("numpy")

    def test_buffers_share_their_memory(self):
        self.check("frombuffer")

    def test_copies(self):
        self.check("copies")

    def test_deep_copies_and_pickles_keep_sharing(self):
        self.check("copies that keep sharing")

    def test_which_constructors_copy(self):
        self.check("new tensors and their memory")

    def test_writes_are_seen_by_all_who_share(self):
        self.check("sharing between Python objects")


if __name__ == "__main__":
    unittest.main()
