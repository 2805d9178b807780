"""Lightning trains on a loader as it is, and its checkpoints resume it."""

from functools import partial

import pytest
import torch

from headrace.sampling.frame_samplers import SequentialFrames
from loaders.trainers.trainees import Probe, is_trained

lightning = pytest.importorskip("lightning", reason="headrace[trainers] is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")


class Module(lightning.LightningModule):
    """The usual three methods."""

    def __init__(self) -> None:
        super().__init__()
        self.probe = Probe()
        self.checked: list[int] = []

    def training_step(self, batch, _):
        loss = self.probe(**batch)["loss"]
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.checked += batch.index[~batch.is_repeated].tolist()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def trainer(tmp_path):
    enabled = [f"enable_{what}" for what in ("checkpointing", "progress_bar", "model_summary")]
    quiet = {**dict.fromkeys(enabled, False), "logger": False, "default_root_dir": tmp_path}
    return partial(lightning.Trainer, accelerator="cpu", **quiet)


def test_epochs_follow_each_other(trainer, loader, expected):
    module = Module()
    before = module.probe.head.weight.detach().clone()
    trainer(max_epochs=2).fit(module, loader())
    assert module.probe.seen == expected
    assert is_trained(module.probe, before)


def test_a_limit_of_batches_goes_through_the_epoch(trainer, loader, expected):
    module = Module()
    trainer(max_epochs=3, limit_train_batches=5).fit(module, loader())
    # Two of 5, and the 2 that were left.
    assert module.probe.seen == expected[:12]


def test_a_sanity_check_does_not_advance_an_evaluation_in_order(trainer, loader):
    module = Module()
    check = loader(sampling=SequentialFrames())
    trainer(max_epochs=1, num_sanity_val_steps=2, limit_train_batches=1).fit(
        module, loader(), check
    )
    assert len(module.checked) == 20 + 113
    assert module.checked[20:] == [*range(40), *range(25), *range(30), *range(18)]


def test_training_is_resumed_in_the_middle_of_an_epoch(trainer, loader, expected, tmp_path):
    class Kept(lightning.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step == 5:
                trainer.save_checkpoint(tmp_path / "middle.ckpt")

    begun = Module()
    trainer(max_steps=7, callbacks=[Kept()]).fit(begun, loader())
    resumed = Module()
    trainer(max_epochs=2).fit(resumed, loader(), ckpt_path=tmp_path / "middle.ckpt")
    assert begun.probe.seen[:5] + resumed.probe.seen == expected
