"""Frames on a disk: each is decoded once, and harm to the disk costs decoding, never pixels."""

import os
import random
import select
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image

from forked import exit_code, forked
from headrace import DecoderConfig, FrameLoader, ImageSequence, SpillWarning
from headrace.loaders import frame_memory
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from loaders.videos import FRAME_BYTES, SIZE, contents, epochs

pytestmark = pytest.mark.usefixtures("whole_gops_at_once")


@pytest.fixture
def spilling(opener, disk):
    """Return `spilling(**options)`: a loader with a small budget, and a store."""
    small = {"memory_budget": 40 * FRAME_BYTES, "sampling": UniformFrames(), "seed": 3}
    return lambda **options: opener(**{**small, "spill": disk, **options})


@pytest.fixture(scope="module")
def expected(videos, store):
    options = {"batch_size": 10, "size": SIZE, "sampling": UniformFrames(), "seed": 3}
    with FrameLoader(videos, index_store=store, **options) as loader:
        return contents(epochs(loader, 3))


def test_every_frame_is_decoded_once_and_never_again(spilling, expected):
    first = spilling()
    assert contents(epochs(first, 3)) == expected
    found = first.statistics
    assert found.frames_decoded <= 1.05 * first._videos.population.num_frames
    assert found.spill.written == found.spill.frames == found.frames_decoded
    again = spilling(size=[32, 48])  # a list is the same size
    assert contents(epochs(again, 3)) == expected
    assert again.statistics.frames_decoded == 0
    assert again.statistics.spill.hits > 0


def test_the_first_batch_of_a_loader_alone_stores_nothing(spilling, monkeypatch):
    """Also where each epoch is one batch, in a run of its own."""
    monkeypatch.setattr(frame_memory, "_UNSTORED_BATCHES", 1)
    frames = spilling()._videos.population.num_frames
    options = {"batch_size": frames, "memory_budget": 10 * frames * FRAME_BYTES}
    each = spilling(**options, prefetch_next_epoch=False, lookahead=1)
    stored = []
    for _ in range(3):
        list(each)
        stored.append(each.statistics.spill.frames)
    assert stored[0] == 0 < stored[1]
    assert stored[2] > 0.9 * frames


def test_a_set_in_another_size_or_dtype_is_stored_beside_it(spilling, opener):
    list(spilling())
    for options in ({"size": (48, 32)}, {"hold": "yuv420"}, {"fit": "contain", "size": (32, 32)}):
        right = contents(opener(sampling=UniformFrames(), seed=3, **options))
        each = spilling(**options)
        assert contents(each) == right, options
        assert each.statistics.frames_decoded > 0


def test_a_shuffled_epoch_decodes_each_frame_once(spilling):
    each = spilling(sampling=ShuffledFrames())
    list(each)
    found = each.statistics
    assert found.frames_delivered <= found.frames_decoded <= 1.1 * found.frames_delivered


def _damage(disk: Path, change) -> None:
    for path in disk.glob("*.frames"):
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)


def _flip(content: bytearray) -> None:
    for place in range(100, len(content), 997):
        content[place] ^= 0x10


def _remove(disk: Path) -> None:
    """Remove the folder, though the loader may store a frame at this moment."""
    while disk.exists():
        shutil.rmtree(disk, ignore_errors=True)


HARM = {
    "removed": _remove,
    "cut": lambda disk: _damage(disk, lambda content: content.__delitem__(slice(1000, None))),
    "bits turned over": lambda disk: _damage(disk, _flip),
    "data removed": lambda disk: [path.unlink() for path in disk.glob("*.frames")],
    "read-only": lambda disk: disk.chmod(0o500),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_store_that_is_harmed_in_the_run_costs_decoding_and_no_pixel(
    spilling, disk, expected, harm, recwarn
):
    each = spilling()
    batches = epochs(each, 1)
    HARM[harm](disk)
    batches += epochs(each, 2)
    if disk.exists():
        disk.chmod(0o700)
    assert contents(batches) == expected
    assert {warning.category for warning in recwarn} <= {SpillWarning}
    assert len({str(warning.message) for warning in recwarn}) == len(recwarn)


def test_a_store_that_is_harmed_before_the_run_does_too(spilling, disk, expected):
    list(spilling())
    _damage(disk, _flip)
    with pytest.warns(SpillWarning):
        assert contents(epochs(each := spilling(), 3)) == expected
    assert each.statistics.spill.damaged > 0


def test_no_frame_of_a_source_that_changed_is_believed(videos, tmp_path, store, disk):
    files = [Path(shutil.copy(path, tmp_path)) for path in videos[:2]]
    options = {"batch_size": 5, "size": (32, 48), "index_store": store, "spill": disk}
    with FrameLoader(files[:1], **options) as loader:
        list(loader)
    shutil.copy(files[1], files[0])
    with FrameLoader(files[:1], **options) as loader, FrameLoader(files[1:], **options) as other:
        assert contents(loader) == contents(other)
    assert loader.statistics.frames_decoded > 0


def test_frames_of_another_decoder_are_not_taken(spilling, opener):
    pytest.importorskip("torchcodec")
    options = {"decoding": DecoderConfig(backend="torchcodec")}
    right = [contents(opener(sampling=UniformFrames(), seed=3, **each)) for each in (options, {})]
    assert [contents(spilling(**options)), contents(spilling())] == right


def test_pictures_that_change_are_not_stored(tmp_path, opener, disk):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(12):
        Image.new("RGB", (48, 32), (10 * number,) * 3).save(folder / f"{number:03d}.bmp")
    options = {"sampling": SequentialFrames(), "spill": disk, "batch_size": 12}
    sequence = [ImageSequence(folder, rate=10)]
    list(opener(files=sequence, **options))
    Image.new("RGB", (48, 32), (255,) * 3).save(folder / "005.bmp")
    [batch] = opener(files=sequence, **options)
    assert batch.frames[5].min() == 255


def test_a_video_that_vanished_is_replaced_as_without_a_disk(videos, tmp_path, opener, disk):
    files = [Path(shutil.copy(path, tmp_path)) for path in videos[:2]]
    options = {"on_error": "skip", "sampling": UniformFrames(), "seed": 3, "lookahead": 1}
    plain, spilling = (opener(files=files, **options, **each) for each in ({}, {"spill": disk}))
    files[0].unlink()
    assert contents(spilling) == contents(plain)
    assert spilling.statistics.samples_substituted > 0


@pytest.mark.filterwarnings("ignore::headrace.errors.SpillWarning")
@pytest.mark.parametrize("harm", ["removed", "no room"])
def test_a_miss_on_disk_costs_about_as_much_as_no_disk(spilling, disk, opener, harm):
    """Not a decoding from the keyframe for each frame that was believed to be there."""
    small = {"memory_budget": 40 * 256 * 256 * 3, "seed": 3, "size": (256, 256)}
    plain = opener(sampling=UniformFrames(), hold="rgb", **small)
    epochs(plain, 3)
    each = spilling(**small, **({"spill_budget": 2**20} if harm == "no room" else {}))
    epochs(each, 1)
    if harm == "removed":
        shutil.rmtree(disk)
    epochs(each, 2)
    found = each.statistics.frames_decoded  # may be the first to see that the folder is gone
    decoded = plain.statistics.frames_decoded
    assert found <= 2 * decoded + 2 * each._videos.population.num_frames


def read_forever(rank, videos, store, disk, has_begun):
    """Read as one of two ranks; write a byte after the first batch."""
    torch.set_num_threads(1)  # a fork has none of the others
    options = {"sampling": ShuffledFrames(), "index_store": store, "seed": 3, "size": (32, 48)}
    ranks = {"rank": rank, "num_replicas": 2}
    with FrameLoader(videos, batch_size=10, spill=disk, **ranks, **options) as loader:
        next(iter(loader))
        os.write(has_begun, b".")
        epochs(loader, 10**6)


@pytest.mark.slow
def test_two_ranks_killed_at_any_moment_leave_a_store_of_right_frames(videos, store, disk, opener):
    """Twenty times, each at a moment drawn by chance; every third time the store begins empty."""
    draw = random.Random(0)
    options = {"sampling": ShuffledFrames(), "seed": 3, "batch_size": 10}
    right = contents(epochs(opener(**options), 2))
    begun, has_begun = os.pipe()
    for turn in range(20):
        if turn % 3 == 0:
            shutil.rmtree(disk, ignore_errors=True)
        ranks = [
            forked(partial(read_forever, rank, videos, store, disk, has_begun)) for rank in (0, 1)
        ]
        for _ in ranks:
            assert os.read(begun, 1) == b"."
        for rank in ranks:
            select.select([], [], [], draw.uniform(0, 0.3))
            os.kill(rank, signal.SIGKILL)
            assert exit_code(rank) == -signal.SIGKILL
        each = opener(spill=disk, **options)
        assert contents(epochs(each, 2)) == right
        assert each.statistics.spill.damaged == 0
        assert each.statistics.spill.hits > 0
        each.close()  # it stores no frame while the next turn removes the store
    os.close(begun)
    os.close(has_begun)
