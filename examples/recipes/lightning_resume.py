"""Lightning: stop in the middle of an epoch, and resume from a checkpoint.

python lightning_resume.py DATASET CHECKPOINTS      # DATASET has one folder per class
"""

import sys
from collections import Counter

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.functional import cross_entropy

from headrace import FrameLoader, Manifest, ShuffledFrames

manifest = Manifest.of_folders(sys.argv[1])
seen = Counter()


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(3, len(manifest.classes["label"]))

    def training_step(self, batch, _):
        seen.update(zip(batch.video.tolist(), batch.index.tolist(), strict=True))
        return cross_entropy(self.model(batch.frames.float().mean((2, 3)) / 255), batch.label)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


def fit(resume=None, **limits):
    checkpoint = ModelCheckpoint(sys.argv[2], every_n_train_steps=5, save_last=True)
    trainer = lightning.Trainer(callbacks=[checkpoint], logger=False, accelerator="cpu", **limits)
    with FrameLoader(manifest, sampling=ShuffledFrames(), batch_size=16, size=(64, 64)) as loader:
        trainer.fit(Module(), loader, ckpt_path=resume)


fit(max_steps=5)  # less than an epoch
fit(resume=f"{sys.argv[2]}/last.ckpt", max_epochs=2)
assert set(seen.values()) == {2}
print(f"{len(seen)} frames, each once in each of 2 epochs")
