"""Host memory: counts, the cache, events, NUMA nodes."""

import threading
import unittest

import corten
from corten.cpu import memory


class Counts(unittest.TestCase):
    """What the allocator has done."""

    def test_names_are_those_of_gpus(self):
        stats = corten.cpu.memory_stats()
        for name in ("allocated_bytes", "allocation", "reserved_bytes", "segment"):
            for part in ("current", "peak", "allocated", "freed"):
                self.assertIsInstance(stats[f"{name}.all.{part}"], int)
        self.assertEqual(memory.memory_stats_as_nested_dict()["segment"]["all"].keys(),
                         {"current", "peak", "allocated", "freed"})
        self.assertIn("num_ooms", stats)

    def test_tensors_are_counted(self):
        before = corten.cpu.memory_stats()
        x = corten.empty(3 << 20, dtype=corten.uint8)
        during = corten.cpu.memory_stats()
        grown = during["allocated_bytes.all.current"] - before["allocated_bytes.all.current"]
        self.assertGreaterEqual(grown, 3 << 20)
        self.assertEqual(during["allocation.all.allocated"], before["allocation.all.allocated"] + 1)
        self.assertGreaterEqual(memory.max_memory_allocated(), memory.memory_allocated())
        self.assertGreaterEqual(memory.memory_reserved(), memory.memory_allocated())
        del x
        after = corten.cpu.memory_stats()
        self.assertEqual(after["allocated_bytes.all.current"], before["allocated_bytes.all.current"])
        self.assertEqual(after["allocation.all.freed"], before["allocation.all.freed"] + 1)
        corten.cpu.reset_peak_memory_stats()
        self.assertLess(memory.max_memory_allocated(), during["allocated_bytes.all.current"])

    def test_the_cache_is_emptied(self):
        x = corten.empty(30 << 20, dtype=corten.uint8)
        del x
        kept = memory.memory_reserved()
        corten.cpu.empty_cache()
        self.assertLessEqual(memory.memory_reserved(), kept - (30 << 20))
        with self.assertRaisesRegex(RuntimeError, "must be a size"):
            memory.set_cache_limit(-1)

    def test_failures_are_counted(self):
        before = corten.cpu.memory_stats()["num_ooms"]
        with self.assertRaises(RuntimeError):
            corten.empty(1 << 50, dtype=corten.uint8)
        self.assertEqual(corten.cpu.memory_stats()["num_ooms"], before + 1)

    def test_numa(self):
        try:
            memory.set_numa_local(True)
        except NotImplementedError as error:
            self.assertIn("NUMA", str(error))
            return
        self.addCleanup(memory.set_numa_local, False)
        self.assertEqual(corten.ones(1 << 20).sum().item(), 1 << 20)


class Events(unittest.TestCase):
    """The events of a reporter."""

    def test_every_block_is_seen(self):
        with memory.record_memory() as recorded:
            x = corten.empty(5000, dtype=corten.uint8)
            made, = recorded.take()
            address = x.data_ptr()
            del x
            freed, = recorded.take()
        self.assertEqual((made.address, made.requested, freed.address), (address, 5000, address))
        self.assertEqual((made.nbytes, freed.requested), (-freed.nbytes, 0))
        self.assertGreaterEqual(made.nbytes, 5000)
        self.assertEqual(made.total_allocated - made.nbytes, freed.total_allocated)
        self.assertGreaterEqual(made.total_reserved, made.total_allocated)
        self.assertEqual((recorded.events, recorded.dropped), ([made, freed], 0))
        corten.empty(10)
        self.assertEqual(len(recorded.events), 2)

    def test_threads_and_failures_are_seen(self):
        with memory.record_memory() as recorded:
            threads = [threading.Thread(target=corten.zeros, args=(1000,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with self.assertRaises(RuntimeError):
                corten.empty(1 << 50, dtype=corten.uint8)
        self.assertEqual(sum(event.nbytes for event in recorded.events if not event.out_of_memory), 0)
        self.assertEqual(len(recorded.events), 9)
        failure, = [event for event in recorded.events if event.out_of_memory]
        self.assertEqual(failure.requested, 1 << 50)

    def test_old_events_are_dropped(self):
        with memory.record_memory(limit=4) as recorded:
            for _ in range(5):
                corten.empty(10)
        self.assertEqual((len(recorded.events), recorded.dropped), (4, 6))
        with self.assertRaisesRegex(ValueError, "limit must be at least 1"):
            memory.record_memory(0)

    def test_one_block_at_a_time_and_beside_the_profiler(self):
        with memory.record_memory() as recorded:
            with self.assertRaisesRegex(RuntimeError, "being recorded already"):
                memory.record_memory().__enter__()
            with corten.profiler.profile(profile_memory=True) as profiled:
                x = corten.empty(1 << 20)
            del x
        self.assertEqual(sum(event.nbytes for event in recorded.events), 0)
        self.assertGreaterEqual(len(recorded.events), 2)
        self.assertGreaterEqual(max(event.cpu_memory_usage for event in profiled.events()), 4 << 20)


if __name__ == "__main__":
    unittest.main()
