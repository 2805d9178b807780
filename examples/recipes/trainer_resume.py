"""Hugging Face Trainer: stop in the middle of an epoch, and resume from a checkpoint.

python trainer_resume.py DATASET CHECKPOINTS        # DATASET has one folder per class
"""

import sys
from collections import Counter

import torch
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback, TrainingArguments

from headrace import FrameLoader, Manifest, ShuffledFrames

manifest = Manifest.of_folders(sys.argv[1])
seen = Counter()


class Model(torch.nn.Linear):
    def forward(self, frames, label, video, index, **_):
        seen.update(zip(video.tolist(), index.tolist(), strict=True))
        return {"loss": cross_entropy(super().forward(frames.float().mean((2, 3)) / 255), label)}


class SaveLoader(TrainerCallback):
    def on_save(self, args, state, control, train_dataloader, **_):
        path = f"{args.output_dir}/checkpoint-{state.global_step}/loader.pt"
        torch.save(train_dataloader.state_dict(), path)


def train(resume, **limits):
    with FrameLoader(manifest, sampling=ShuffledFrames(), batch_size=16, size=(64, 64)) as loader:
        model = Model(3, len(manifest.classes["label"]))
        arguments = TrainingArguments(sys.argv[2], save_steps=5, ignore_data_skip=True, **limits)
        trainer = Trainer(model, arguments, callbacks=[SaveLoader()])
        trainer.get_train_dataloader = lambda: loader
        if resume:
            loader.load_state_dict(torch.load(f"{resume}/loader.pt", weights_only=True))
        trainer.train(resume_from_checkpoint=resume)


train(None, max_steps=5)  # less than an epoch
train(f"{sys.argv[2]}/checkpoint-5", num_train_epochs=2)
assert set(seen.values()) == {2}
print(f"{len(seen)} frames, each once in each of 2 epochs")
