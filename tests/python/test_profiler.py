"""What the profiler records."""

import importlib
import json
import os
import tempfile
import unittest

from module_under_test import torch

profiler = importlib.import_module(torch.__name__ + ".profiler")
autograd_profiler = importlib.import_module(torch.__name__ + ".autograd.profiler")


class Profiles(unittest.TestCase):
    def record(self, **options):
        x = torch.ones(2, 3, requires_grad=True)
        with autograd_profiler.profile(**options) as prof:
            with autograd_profiler.record_function("forward"):
                y = (x * 2).sum()
            y.backward()
        return prof

    def test_events(self):
        prof = self.record()
        names = [event.name for event in prof.function_events]
        for name in ("forward", "aten::mul", "aten::sum"):
            self.assertEqual(names.count(name) >= 1, True, name)
        self.assertTrue(any("MulBackward0" in name for name in names))
        forward = next(e for e in prof.function_events if e.name == "forward")
        inside = {event.name for event in forward.cpu_children}
        self.assertLessEqual({"aten::mul", "aten::sum"}, inside)
        self.assertGreaterEqual(
            forward.cpu_time_total, sum(e.cpu_time_total for e in forward.cpu_children)
        )

    def test_averages(self):
        with autograd_profiler.profile() as prof:
            for _ in range(5):
                torch.ones(3).exp()
        (exp,) = (row for row in prof.key_averages() if row.key == "aten::exp")
        self.assertEqual(exp.count, 5)
        text = prof.key_averages().table(sort_by="self_cpu_time_total")
        self.assertIn("aten::exp", text)
        self.assertIn("# of Calls", text)

    def test_columns(self):
        averages = self.record(record_shapes=True).key_averages(group_by_input_shape=True)
        text = averages.table(max_src_column_width=10, max_shapes_column_width=4, time_unit="ms")
        row = next(line for line in text.splitlines() if "aten::mul" in line)
        self.assertTrue(row.endswith(" [[2,"), row)
        self.assertRegex(row, r" \d+\.\d{3}ms ")
        self.assertRegex(text, r"Self CPU time total: \d+\.\d{3}ms")
        self.assertRegex(averages.table(time_unit="s"), r"Self CPU time total: \d+\.\d{3}s")

    def test_shapes(self):
        prof = self.record(record_shapes=True)
        (mul,) = (e for e in prof.function_events if e.name == "aten::mul" and e.input_shapes[0] == [2, 3]
                  and getattr(e.cpu_parent, "name", "") == "forward")
        self.assertEqual(mul.input_shapes[0], [2, 3])

    def test_nothing_outside(self):
        with autograd_profiler.record_function("not recorded"):
            torch.ones(2).exp()
        prof = self.record()
        self.assertNotIn("not recorded", [event.name for event in prof.function_events])

    def test_trace(self):
        prof = self.record()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            prof.export_chrome_trace(path)
            with open(path) as file:
                events = json.load(file)["traceEvents"]
        self.assertTrue(any(event.get("name") == "forward" for event in events))

    def test_schedule(self):
        actions = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        names = [actions(step).name for step in range(6)]
        self.assertEqual(
            names, ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
        )
        traces = []
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], schedule=actions,
            on_trace_ready=lambda prof: traces.append([e.key for e in prof.key_averages()]),
        ) as prof:
            for _ in range(6):
                torch.ones(2).exp()
                prof.step()
        self.assertEqual(len(traces), 1)
        self.assertIn("aten::exp", traces[0])
        self.assertIn("ProfilerStep#2" if "ProfilerStep#2" in traces[0] else "ProfilerStep*",
                      traces[0])

    def test_error_inside(self):
        with autograd_profiler.profile() as prof:
            with self.assertRaises(RuntimeError):
                torch.ones(2) + torch.ones(3)
            torch.ones(2).exp()
        self.assertIn("aten::exp", [event.name for event in prof.function_events])


class Memory(unittest.TestCase):
    def record(self, **options):
        older = torch.ones(5000)  # given back unseen
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True, **options) as prof:
            x = torch.ones(256)
            with profiler.record_function("part"):
                y = torch.ones(100).exp()  # two blocks, of which one is given back
            del x, older
        self.assertEqual(y.numel(), 100)
        return prof

    def test_bytes_of_operators(self):
        found = {row.key: row for row in self.record().key_averages()}
        self.assertEqual(found["aten::ones"].cpu_memory_usage, 1024 + 400)
        self.assertEqual(found["aten::exp"].self_cpu_memory_usage, 400)
        self.assertEqual(found["part"].cpu_memory_usage, 400)
        self.assertEqual(found["[memory]"].self_cpu_memory_usage, -1024)

    def test_nothing_is_reported_unasked(self):
        with profiler.profile() as prof:
            torch.ones(256)
        self.assertEqual({row.self_cpu_memory_usage for row in prof.key_averages()}, {0})
        self.assertNotIn("Self CPU Mem", prof.key_averages().table())

    def test_table(self):
        averages = self.record().key_averages()
        text = averages.table(sort_by="self_cpu_memory_usage")
        for words in ("Self CPU Mem", "CPU Mem", "400 B", "1.39 KB"):
            self.assertIn(words, text)

    def test_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self.record().export_chrome_trace(path)
            with open(path) as file:
                events = json.load(file)["traceEvents"]
        changes = [event for event in events if event["name"] == "[memory]"]
        self.assertEqual({event["ph"] for event in changes}, {"i"})
        self.assertIn(1024, [event["args"]["Bytes"] for event in changes])
        self.assertIn(-1024, [event["args"]["Bytes"] for event in changes])
        keys = {"Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id", "Addr"}
        for event in changes:
            self.assertLessEqual(keys, event["args"].keys())

    def test_of_backward_and_threads(self):
        weight = torch.ones(1000, requires_grad=True)
        (weight * 2).sum().backward()  # what is kept for threads is there now
        weight.grad = None
        with profiler.profile(profile_memory=True) as prof:
            (weight * 2).sum().backward()
        self.assertGreaterEqual(sum(e.self_cpu_memory_usage for e in prof.events()), 4000)
        self.assertEqual(weight.grad.numel(), 1000)

    @unittest.skipIf(torch.__name__ == "torch", "records them")
    def test_options_that_record_nothing_say_so(self):
        for option in ("with_flops", "with_stack", "with_modules"):
            with self.assertWarnsRegex(UserWarning, f"{option} is not supported"):
                profiler.profile(**{option: True})
        with self.assertWarnsRegex(UserWarning, "CUDA is not available"):
            profiler.profile(activities=[profiler.ProfilerActivity.CUDA])


class Events(unittest.TestCase):
    def setUp(self):
        self.util = importlib.import_module(torch.__name__ + ".autograd.profiler_util")

    def test_nesting(self):
        events = self.util.EventList()
        for number, (start, end) in enumerate([(0, 10), (1, 4), (2, 3), (5, 9)]):
            events.append(self.util.FunctionEvent(id=number, name="", thread=0, start_us=start, end_us=end))
        events._populate_cpu_children()
        self.assertEqual([[child.id for child in event.cpu_children] for event in events], [[1, 3], [2], [], []])

    def test_averages(self):
        average = self.util.FunctionEventAvg()
        average.add(self.util.FunctionEvent(id=0, name="foo", thread=0, start_us=10, end_us=15))
        average.add(self.util.FunctionEvent(id=1, name="foo", thread=0, start_us=20, end_us=30))
        average.add(average)
        self.assertEqual((average.key, average.count, average.cpu_time_total, average.cpu_time), ("foo", 4, 30, 7.5))

    def test_text(self):
        with autograd_profiler.profile() as prof:
            torch.ones(2) + 1
        self.assertEqual(str(prof), prof.table())


if __name__ == "__main__":
    unittest.main()
