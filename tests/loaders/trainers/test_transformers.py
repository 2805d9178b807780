"""The Trainer of Hugging Face trains on a loader as it is, and is resumed with a callback."""

import json
from pathlib import Path

import pytest
import torch

from headrace.loaders.datasets import VideoDataset
from loaders.trainers.trainees import Probe, is_trained
from loaders.videos import SIZE

transformers = pytest.importorskip("transformers", reason="headrace[trainers] is not installed")
pytest.importorskip("accelerate", reason="headrace[trainers] is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")


class LoaderTrainer(transformers.Trainer):
    """Trains on the batches of a loader."""

    def __init__(self, *args, loader, **options) -> None:
        super().__init__(*args, **options)
        self.loader = loader

    def get_train_dataloader(self):
        return self.loader


class KeepsPlace(transformers.TrainerCallback):
    """Saves the state of a loader in each checkpoint."""

    def __init__(self, loader) -> None:
        self.loader = loader

    def on_save(self, args, state, control, **_):
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (folder / "loader.json").write_text(json.dumps(self.loader.state_dict()))


def arguments(folder, **options):
    quiet = {"use_cpu": True, "report_to": [], "disable_tqdm": True}
    asked = {"num_train_epochs": 2, "save_strategy": "no", **quiet, **options}
    return transformers.TrainingArguments(output_dir=str(folder), **asked)


def trainer_of(folder, model, loader, **options):
    # The state of the loader holds its position.
    asked = arguments(folder, per_device_train_batch_size=10, ignore_data_skip=True, **options)
    return LoaderTrainer(model, asked, loader=loader, callbacks=[KeepsPlace(loader)])


def test_epochs_follow_each_other(tmp_path, loader, expected):
    model = Probe()
    before = model.head.weight.detach().clone()
    trainer_of(tmp_path, model, loader()).train()
    assert model.seen == expected
    assert is_trained(model, before)


def test_training_is_resumed_in_the_middle_of_an_epoch(tmp_path, loader, expected):
    begun = Probe()
    options = {"save_strategy": "steps", "save_steps": 5}
    trainer_of(tmp_path, begun, loader(), max_steps=7, **options).train()
    resumed, each = Probe(), loader()
    place = tmp_path / "checkpoint-5"
    each.load_state_dict(json.loads((place / "loader.json").read_text()))
    trainer_of(tmp_path, resumed, each, max_steps=24).train(resume_from_checkpoint=str(place))
    assert begun.seen[:5] + resumed.seen == expected


def test_items_of_a_dataset_are_collated_as_they_are(tmp_path, videos, store):
    class Clips(Probe):
        def forward(self, frames, video, index, **_):
            return super().forward(frames.float().mean(1), video, index[:, 0])

    with VideoDataset(videos, clip_len=4, size=SIZE, index_store=store) as clips:
        model = Clips()
        options = {"per_device_train_batch_size": 2, "remove_unused_columns": False}
        trainer = transformers.Trainer(model, arguments(tmp_path, **options), train_dataset=clips)
        trainer.train()
    seen = [place for batch in model.seen for place in batch]
    assert sorted(video for video, _ in seen) == sorted([0, 1, 2, 3] * 2)
    assert len(set(seen)) > 5
    assert torch.isfinite(model.head.weight).all()
