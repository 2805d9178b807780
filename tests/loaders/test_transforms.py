"""Random transforms: one draw for each sample, which depends on its slot alone."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision.transforms import v2

from headrace import CameraStreamSampler, EpochSampler, ShuffledFrames, UniformFrames, WithSample
from loaders.cameras.clips import VIEW, facts
from loaders.videos import KEPT, SIZE, contents, resumed

FLIP = v2.RandomHorizontalFlip()


def draws(frames):
    """Replace the pixels by one draw of each generator."""
    return torch.tensor([float(torch.rand(())), random.random(), float(np.random.rand())])


def is_flipped(found, was) -> bool:
    """Return whether a picture is another's mirror image; it must be that or the same."""
    assert torch.equal(found, was) or torch.equal(found, was.flip(-1))
    return not torch.equal(found, was)


SAMPLES = [
    # door, options, shape that a transform receives
    ("frames", {}, (3, *SIZE)),
    ("frames", {"decoding": KEPT}, (3, *SIZE)),
    ("clips", {}, (4, 3, *SIZE)),
    ("cameras", {"view": VIEW, "metadata": facts}, (3, 3, 20, 40)),
    ("cameras", {"decoding": KEPT}, (3, 3, *SIZE)),
    ("windows", {"metadata": facts}, (3, 3, 3, *SIZE)),
    ("frame items", {"files": "manifest"}, (3, *SIZE)),
    ("clip items", {"files": "manifest", "boundary": "repeat_last"}, (4, 3, *SIZE)),
    ("camera items", {"view": VIEW, "metadata": facts}, (3, 3, 20, 40)),
]


@pytest.mark.parametrize(
    ("door", "options", "shape"),
    SAMPLES,
    ids=[f"{place} {door}" for place, (door, *_) in enumerate(SAMPLES)],
)
def test_a_transform_gets_uint8_frames_and_the_sample_on_request(
    request, opener, door, options, shape
):
    """All entries of a sample; the transform of a batch comes after it."""

    def look(pictures, sample):
        assert (pictures.dtype, pictures.device.type) == (torch.uint8, "cpu")
        assert pictures.shape == shape
        seen.append(said(sample))
        return pictures.float().mean((-1, -2))

    def first(**more):
        opened = opener(door, files, **given, **more)
        if door == "camera items":
            return opened[next(iter(CameraStreamSampler(opened, group_num=1)))[0]]
        return opened[1] if door.endswith("items") else next(iter(opened))

    def said(sample):
        return {key: str(value) for key, value in sample.items() if key != "frames"}

    seen, given = [], dict(options)
    files = request.getfixturevalue(given.pop("files")) if "files" in given else None
    of_batch = {} if door.endswith("items") else {"batch_transform": lambda means: means * 2}
    plain, found = first(), first(transform=WithSample(look), **of_batch)
    expected = plain["frames"].float().mean((-1, -2))
    assert torch.equal(found["frames"], expected * 2 if of_batch else expected)
    rows = map(plain.sample, range(len(plain))) if of_batch else [plain]
    assert seen == [said(row) for row in rows]


def test_each_sample_of_a_batch_is_flipped_or_not_and_a_batch_as_one(loader, plain):
    flipped = []
    for batch in loader(transform=FLIP):
        flipped += map(is_flipped, batch.frames, plain.of(batch))
        assert batch.frames.stride(1) == 1  # colour stays innermost
    assert 20 < sum(flipped) < 93
    batches = list(loader(batch_transform=FLIP))
    assert {is_flipped(batch.frames, plain.of(batch)) for batch in batches} == {True, False}
    for batch in loader("clips", transform=FLIP):
        assert len([*map(is_flipped, batch.frames, plain.of(batch))]) == len(batch)


def drawn(batches):
    return torch.cat([batch.frames for batch in batches])


def test_chance_is_the_same_with_any_workers_batch_size_and_ranks_and_after_resuming(loader):
    whole = drawn(loader(transform=draws))
    assert whole.shape == (113, 3)
    assert len(whole.unique()) == 3 * 113
    assert torch.equal(drawn(loader(transform=draws, num_threads=3, batch_size=7)), whole)
    ranks = [drawn(loader(transform=draws, rank=rank, num_replicas=2)) for rank in range(2)]
    assert torch.equal(torch.stack(ranks, 1).flatten(0, 1)[:113], whole)
    torch.manual_seed(5)
    begun, after = loader(transform=draws), loader(transform=draws, num_threads=2)
    assert torch.equal(drawn(resumed(begun, after, 4)), whole)
    assert not torch.isin(drawn(after), whole).any()
    assert not torch.isin(drawn(loader(transform=draws, seed=1)), whole).any()


def test_the_generators_of_the_process_go_on_as_if_nothing_was_drawn(loader):
    def state():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    before = state()
    next(iter(loader(transform=draws)))
    assert state() == before


def test_unequal_samples_are_refused_and_an_identity_changes_nothing(loader, refused):
    refused("transforms")
    assert contents(loader()) == contents(loader(transform=lambda frame: frame))


@pytest.fixture
def drawing(loader):
    return loader("frame items", transform=draws)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_of_a_dataset_draw_alike_in_any_process(drawing, workers):
    def of_pass(sampler, workers=0):
        batches = DataLoader(drawing, batch_size=9, sampler=sampler, num_workers=workers)
        return torch.cat([batch["frames"] for batch in batches])

    sampler = EpochSampler(drawing, ShuffledFrames())
    first, second = (of_pass(sampler, workers) for _ in range(2))
    assert not torch.isin(second, first).any()
    assert torch.equal(of_pass(EpochSampler(drawing, ShuffledFrames())), first)


def test_items_without_set_epoch_draw_again(drawing):
    assert not torch.isin(drawing[3]["frames"], drawing[3]["frames"]).any()
    drawing.set_epoch(0)
    assert torch.equal(drawing[3]["frames"], drawing[3]["frames"])


def test_a_wrapper_that_reads_frames_one_by_one_gets_one_warning(loader):
    frames, others = loader("frame items"), loader("frame items")
    sampler = EpochSampler(frames, UniformFrames())
    with pytest.warns(UserWarning, match=r"decoded for 64 requests of single") as w:
        list(DataLoader(ConcatDataset([frames]), batch_size=10, sampler=sampler))
    assert len(w) == 1
    assert "__getitems__" in str(w[0].message)
    list(DataLoader(Subset(others, range(113)), batch_size=10))
    for frame in range(113):  # in order, no GOP is decoded twice
        others[frame]
