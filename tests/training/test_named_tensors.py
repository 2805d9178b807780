"""A batch is a dict of tensors and an object with attributes, and tells its shapes."""

import copy
import pickle

import pytest
import torch
from torch.utils.data._utils.pin_memory import pin_memory

from headrace.training.batch import Batch
from headrace.training.named_tensors import NamedTensors


@pytest.fixture
def batch():
    return Batch(frames=torch.zeros(2, 3, 4, 6, dtype=torch.uint8), video=torch.tensor([5, 7]))


def test_what_is_an_attribute_is_an_item_too(batch):
    assert batch.video is batch["video"]
    batch.label = torch.tensor([1, 0])
    assert [*batch] == ["frames", "video", "label"]
    assert "label" in batch
    assert batch.pop("label").tolist() == [1, 0]
    assert dict(**batch) == dict(batch.items())
    with pytest.raises(AttributeError, match="a Batch has frames, video, and no 'label'"):
        batch.label  # noqa: B018


def test_a_number_in_brackets_is_told_what_to_ask(batch):
    with pytest.raises(KeyError, match=r"by name: frames, video; batch\.sample\(0\) gives one"):
        batch[0]
    with pytest.raises(KeyError, match="label"):
        batch["label"]
    assert batch.get(0) is None


def test_its_length_is_the_number_of_samples(batch):
    assert len(batch) == 2
    assert len(NamedTensors()) == 0
    assert len(NamedTensors(loss=torch.tensor(1.0), video=torch.tensor([5]))) == 1
    assert NamedTensors()  # a batch is there, however small


def test_it_is_told_by_shapes(batch):
    assert repr(batch) == "Batch(2 samples: frames uint8 [2, 3, 4, 6], video int64 [2])"
    moved = repr(NamedTensors(rows=[[torch.zeros(1, 2, device="meta")]], name="x"))
    assert moved == "NamedTensors(1 samples: rows 1 x 1 x float32 [1, 2] on meta, name str)"


def test_it_is_moved_as_a_whole_and_stays_what_it_is(batch):
    batch["rows"] = [[torch.zeros(3)], [torch.zeros(2)]]
    moved = batch.to("meta")
    assert type(moved) is Batch
    assert {moved.frames.device.type, moved.rows[1][0].device.type} == {"meta"}
    assert batch.frames.device.type == "cpu"
    assert batch.to(torch.device("cpu"), non_blocking=True).frames is batch.frames


@pytest.mark.parametrize("copied", [copy.copy, lambda each: pickle.loads(pickle.dumps(each))])  # noqa: S301
def test_it_is_copied_and_sent(batch, copied):
    again = copied(batch)
    assert type(again) is Batch
    assert torch.equal(again.video, batch.video)
    assert again is not batch


def test_a_sample_is_what_there_is_of_it(batch):
    batch["rows"] = [["a"], ["b"]]
    sample = batch.sample(1)
    assert (int(sample["video"]), sample["rows"], sample["frames"].shape) == (7, ["b"], (3, 4, 6))


def test_the_pinning_of_a_dataloader_takes_it(batch, monkeypatch):
    """And so does its own; there is no GPU here to lock memory for."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: tensor + 1)
    for pinned in (pin_memory(batch), batch.pin_memory()):
        assert type(pinned) is Batch
        assert pinned.video.tolist() == [6, 8]
