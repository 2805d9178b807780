"""Accelerate moves and gathers batches, and its checkpoints resume a loader."""

from itertools import islice

import pytest
import torch

from headrace.loaders.frame_loader import Batch
from loaders.trainers.trainees import Probe, is_trained, places

accelerate = pytest.importorskip("accelerate", reason="headrace[trainers] is not installed")


def test_a_batch_is_moved_and_gathered_as_it_is(loader):
    accelerator = accelerate.Accelerator(cpu=True)
    batch = next(iter(loader()))
    moved = accelerate.utils.send_to_device(batch, torch.device("meta"))
    assert type(moved) is Batch
    assert moved.frames.device.type == moved.pts_seconds.device.type == "meta"
    assert accelerate.utils.find_batch_size(batch) == 10
    gathered = accelerator.gather(batch)
    assert torch.equal(gathered["frames"], batch.frames)
    halved = accelerate.utils.operations.slice_tensors(batch, slice(0, 5))
    assert len(halved) == 5


def test_training_is_resumed_in_the_middle_of_an_epoch(loader, expected, tmp_path):
    def prepared():
        accelerator = accelerate.Accelerator(cpu=True)
        model = Probe()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, batches = accelerator.prepare(model, optimizer, loader())
        accelerator.register_for_checkpointing(batches)
        return accelerator, model, optimizer, batches

    def train(accelerator, model, optimizer, batches):
        for batch in batches:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()

    accelerator, model, optimizer, batches = prepared()
    before = model.head.weight.detach().clone()
    train(accelerator, model, optimizer, islice(batches, 5))
    accelerator.save_state(str(tmp_path))
    seen = model.seen
    assert is_trained(model, before)

    accelerator, model, optimizer, batches = prepared()
    accelerator.load_state(str(tmp_path))
    train(accelerator, model, optimizer, batches)
    train(accelerator, model, optimizer, batches)
    assert seen + model.seen == expected
    assert places(islice(batches, 1)) != expected[:1]
