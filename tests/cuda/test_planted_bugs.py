"""Bugs of programs that a GPU shows now and then: the emulator shows each of them, and nothing where they are mended."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import ON_GPU, CudaTest, torch, usable  # noqa: E402

TRIALS = 40
SIZE = 1000


@usable
@unittest.skipIf(ON_GPU, "a GPU runs work at once, so that these bugs hide")
class PlantedBugs(CudaTest):
    def wrong(self, trial, **how):
        """How many trials do not give what a program without the bug gives. Each has a number of its own, so that what
        an earlier one has left in memory is wrong."""
        self.trials = getattr(self, "trials", 0) + TRIALS
        found = sum(not trial(number, **how) for number in range(self.trials, self.trials + TRIALS))
        torch.cuda.synchronize()
        return found

    def check_planted(self, trial, **bug):
        mended = {name: not value for name, value in bug.items()}
        self.assertEqual(self.wrong(trial, **mended), 0)
        self.assertGreater(self.wrong(trial, **bug), 0)

    def test_missing_record_stream(self):
        side = torch.cuda.Stream()

        def trial(number, record):
            x = torch.ones(SIZE, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x + 1
            if record:
                x.record_stream(side)
            del x
            # It may be given the memory of `x`, which `side` still reads.
            other = torch.full((SIZE,), float(number), device="cuda")
            torch.cuda.current_stream().synchronize()
            side.synchronize()
            return y.sum().item() == 2 * SIZE and other[0].item() == number

        self.check_planted(trial, record=False)

    def test_missing_wait_between_streams(self):
        side = torch.cuda.Stream()

        def trial(number, wait):
            x = torch.ones(SIZE, device="cuda") * number
            if wait:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                total = x.sum().item()
            x.record_stream(side)
            return total == number * SIZE

        self.check_planted(trial, wait=False)

    def test_result_is_used_on_the_wrong_stream(self):
        side = torch.cuda.Stream()

        def trial(number, wait):
            x = torch.ones(SIZE, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x * number
            x.record_stream(side)
            if wait:
                torch.cuda.current_stream().wait_stream(side)
            total = y.sum().item()
            side.synchronize()
            return total == number * SIZE

        self.check_planted(trial, wait=False)

    def test_result_is_read_before_its_copy_has_come(self):
        def trial(number, synchronize):
            result = torch.zeros(SIZE).pin_memory()
            result.copy_(torch.ones(SIZE, device="cuda") * number, non_blocking=True)
            if synchronize:
                torch.cuda.synchronize()
            return result.sum().item() == number * SIZE

        self.check_planted(trial, synchronize=False)

    def test_pinned_source_changes_before_it_is_copied(self):
        def trial(number, synchronize):
            source = torch.ones(SIZE).pin_memory()
            x = source.to("cuda", non_blocking=True)
            if synchronize:
                torch.cuda.synchronize()
            source.fill_(9)
            return x.sum().item() == SIZE

        self.check_planted(trial, synchronize=False)

    def test_memory_that_nobody_has_written(self):
        def trial(number, fill):
            x = torch.empty(SIZE, device="cuda")
            if fill:
                x.fill_(number)
            return x.sum().item() == number * SIZE

        self.check_planted(trial, fill=False)


if __name__ == "__main__":
    unittest.main()
