"""Accelerate: stop in the middle of an epoch, and resume from a checkpoint.

python accelerate_resume.py DATASET CHECKPOINT      # DATASET has one folder per class
"""

import sys
from collections import Counter
from itertools import islice

import accelerate
import torch
from torch.nn.functional import cross_entropy

from headrace import FrameLoader, Manifest, ShuffledFrames

manifest = Manifest.of_folders(sys.argv[1])
seen = Counter()


def train(steps, resume):
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(3, len(manifest.classes["label"]))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1))
    with FrameLoader(manifest, sampling=ShuffledFrames(), batch_size=16, size=(64, 64)) as loader:
        accelerator.register_for_checkpointing(loader)
        if resume:
            accelerator.load_state(sys.argv[2])
        while loader.epoch < 2 and steps:
            for batch in islice(loader, steps):
                seen.update(zip(batch.video.tolist(), batch.index.tolist(), strict=True))
                scores = model(batch.frames.float().mean((2, 3)) / 255)
                accelerator.backward(cross_entropy(scores, batch.label))
                optimizer.step()
                optimizer.zero_grad()
                steps -= 1
        accelerator.save_state(sys.argv[2])


train(steps=5, resume=False)  # less than an epoch
train(steps=1000, resume=True)
assert set(seen.values()) == {2}
print(f"{len(seen)} frames, each once in each of 2 epochs")
