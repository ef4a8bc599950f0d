"""Sharded training, checkpoints and pipelines between processes, where gloo is installed."""

import unittest

from gloo_processes import GlooProcesses

HEAD = """
import corten.distributed.checkpoint as dcp
from corten.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from corten.distributed.fsdp import fully_shard
from corten.distributed.pipelining import PipelineStage, Schedule1F1B
from sharded_models import GPT, filled, token_batches, token_loss
warnings.simplefilter("ignore")

def trained(model, steps, optimizer, part):
    for tokens, targets in list(token_batches(4, 12))[steps]:
        token_loss(model(part(tokens)), part(targets)).backward()
        optimizer.step()
        optimizer.zero_grad()

def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)

def sharded():
    model = filled(GPT(layers=1))
    fully_shard(model.blocks[0])
    return fully_shard(model)

def mine(batch):
    return batch.chunk(size)[rank]

def state_of(model, optimizer):
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
"""


class Processes(GlooProcesses):
    head = HEAD

    def test_training_goes_on_with_other_numbers_of_processes(self):
        self.run_program("""
            model = sharded()
            optimizer = adam(model)
            trained(model, slice(0, 2), optimizer, mine)
            dcp.save(state_of(model, optimizer), checkpoint_id=f"{folder}/checkpoint")
        """, 2)
        for size in (3,):
            with self.subTest(size=size):
                outputs = self.run_program("""
                    model = sharded()
                    optimizer = adam(model)
                    state = state_of(model, optimizer)
                    dcp.load(state, checkpoint_id=f"{folder}/checkpoint")
                    set_state_dict(model, optimizer, model_state_dict=state["model"],
                                   optim_state_dict=state["optimizer"])
                    trained(model, slice(2, 4), optimizer, mine)
                    reference = filled(GPT(layers=1))
                    trained(reference, slice(0, 4), adam(reference), lambda batch: batch)
                    worst = max(
                        (a.full_tensor() - b).abs().max().item()
                        for a, b in zip(model.parameters(), reference.parameters()))
                    print(worst)
                """, size)
                for output in outputs:
                    self.assertLess(float(output), 1e-6)

    def test_a_rank_that_is_killed_leaves_the_former_checkpoint(self):
        outputs = self.run_program("""
            from corten.distributed.tensor import Shard, distribute_tensor
            mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
            rows = torch.arange(15.0).reshape(5, 3)
            path = f"{folder}/killed"
            dcp.save({"rows": distribute_tensor(rows, mesh, [Shard(0)])}, checkpoint_id=path)
            if rank == 1:
                # The data are written, the other rank does not know of them yet.
                replace = os.replace
                os.replace = lambda *names: (replace(*names), os._exit(0))
            try:
                dcp.save({"rows": distribute_tensor(rows + 1, mesh, [Shard(0)])}, checkpoint_id=path)
                print("saved")
            except (dcp.CheckpointException, RuntimeError) as error:
                print(type(error).__name__)
            found = {"rows": torch.zeros(5, 3)}
            dcp.load(found, checkpoint_id=path, no_dist=True)
            print(torch.equal(found["rows"], rows), flush=True)
            os._exit(0)
        """, 2)
        self.assertEqual(outputs[0].split()[1:], ["True"])
        self.assertNotIn("saved", outputs[0])

    def test_pipeline(self):
        outputs = self.run_program("""
            nn = torch.nn
            def build():
                return filled(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)))
            model, reference = build(), build()
            stage = PipelineStage(model[:2] if rank == 0 else model[2], rank, 2, "cpu")
            loss = nn.functional.mse_loss
            schedule = Schedule1F1B(stage, 4, loss)
            optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (stage.submod, reference)]
            generator = torch.Generator().manual_seed(0)
            for _ in range(5):
                x, y = torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)
                schedule.step(*((x,) if rank == 0 else ()), target=y)
                loss(reference(x), y).backward()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
            print(max((a - b).abs().max().item() for a, b in zip(
                stage.submod.parameters(), (reference[0] if rank == 0 else reference[2]).parameters())))
        """, 2)
        for output in outputs:
            self.assertLess(float(output), 1e-12)


if __name__ == "__main__":
    unittest.main()
