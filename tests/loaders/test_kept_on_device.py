"""Frames that stay on the decoding device equal those of `open_device_decoder`, or are refused."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image

import headrace
from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu
from headrace import Alignment, Bursts, ClipAugment, DecoderConfig, FrameFormat
from headrace.runtime import buffer_pool as memory
from headrace.sampling.clip_samplers import RandomClips, UniformClips
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip
from loaders import videos as kit
from loaders.cameras.clips import CAMERAS, EVERY, VIEW, WAYS, cells, write_pictures
from loaders.videos import KEPT, SIZE, apart, check_near, check_pictures, frames_of, pictures

CLIPS = [RandomClips(num_frames=9, stride=2), UniformClips(num_frames=6, stride=3, num_clips=2)]
FITTING = VIEW.fitting((64, 96))
VIEWED = FrameFormat(size=FITTING.size, fit=FITTING)
SAMPLINGS = [
    *(SequentialFrames(), UniformFrames()),
    *(ShuffledFrames(over="seconds"), Bursts(frames_per_burst=4, lanes=9)),
]


@pytest.mark.parametrize(
    ("door", "options", "workers"),
    [
        *(("frames", {"sampling": each}, 1 + 2 * (k % 2)) for k, each in enumerate(SAMPLINGS)),
        *(("clips", {"clips": each}, 2) for each in CLIPS),
        *(("cameras", {}, workers) for workers in (1, 3)),
        ("cameras", {"view": VIEW}, 2),
        ("cameras", {"augment": ClipAugment(flip=0.5, alike=False)}, 2),
        *(("windows", WAYS[way], workers) for way, workers in (("plain", 3), ("view", 1))),
        ("windows", WAYS["flips"], 2),
    ],
    ids=repr,
)
def test_pictures_are_those_that_the_device_decoder_leaves_there(
    kept_loader, videos, layout, door, options, workers
):
    each = kept_loader(door, num_threads=workers, **options)
    files = videos if door in ("frames", "clips") else layout
    shape = VIEWED if "view" in options else kit.SHAPE
    first, second, flips = list(each), list(each), set()
    for batch in [*first, *second]:
        assert (batch.frames.dtype, batch.frames.device.type) == (torch.uint8, "cpu")
        assert batch.frames.shape[-3:] == (3, *shape.size)
        flat = batch.frames.flatten(0, -4)  # a view of what was decoded into
        assert flat.is_contiguous(memory_format=torch.channels_last)
        flips |= check_pictures(batch, files, shape)
    assert flips == ({True, False} if "augment" in options else {False})
    if door == "clips":
        assert first[0].frames.shape[1] == options["clips"].num_frames
    if door == "cameras":
        assert first[0].frames.shape[:2] == (4, len(CAMERAS))
        assert sorted(cell[1:] for cell in cells(first)) == sorted(EVERY)
        assert each.statistics.amplification == 1.0


@pytest.mark.parametrize(
    ("door", "options"),
    [
        *((door, {}) for door in ("frames", "clips", "cameras")),
        *(("windows", w) for w in WAYS.values()),
    ],
    ids=["frames", "clips", "cameras", *(f"windows-{name}" for name in WAYS)],
)
def test_batches_differ_from_arrays_by_a_few_grey_levels_and_in_nothing_else(
    kept_loader, door, options
):
    ways = kept_loader(door, **options), kept_loader(door, decoding=None, **options)
    for kept, came_down in zip(*ways, strict=True):
        check_near(kept, came_down)


def test_a_state_goes_on_with_frames_that_come_down(kept_loader):
    down = partial(kept_loader, decoding=None)
    for found, expected in zip(kit.resumed(kept_loader(), down(), 3), down(), strict=True):
        check_near(found, expected)


@pytest.fixture(scope="module")
def damaged(written, tmp_path_factory):
    """A good video, and one with a damaged third GOP."""
    good = written(SynthClip(num_frames=40, size=(64, 96), gop=8, b_frames=2))
    bad = tmp_path_factory.mktemp("damaged") / "bad.mp4"
    return [good, damage_packets(good, bad, ordinals=[20, 21, 22])]


def test_a_damaged_frame_is_named(kept_loader, damaged):
    with pytest.raises(headrace.DecodeError, match=r"bad\.mp4"):
        list(kept_loader(files=damaged))


@pytest.mark.parametrize(
    ("door", "options"), [("frames", {}), ("clips", {"clips": CLIPS[0], "batch_size": 2})]
)
@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_bad_frames_are_replaced_or_concealed_as_for_arrays(
    kept_loader, damaged, on_error, door, options
):
    kept, came_down = (
        kept_loader(door, damaged, on_error=on_error, decoding=decoding, **options)
        for decoding in (KEPT, None)
    )
    is_concealed = False
    for _ in range(2):
        for found, expected in zip(kept, came_down, strict=True):
            check_near(found, expected)
            is_concealed |= bool(found.is_concealed.any())
    assert is_concealed == (on_error == "conceal")
    assert {loss.source for loss in kept.quarantined} <= {str(damaged[1])}
    assert bool(kept.quarantined) == (on_error == "skip")
    replaced = kept.statistics.samples_substituted
    assert replaced == came_down.statistics.samples_substituted
    assert (replaced > 0) == (on_error == "skip")


def test_substitutes_are_decoded_there_too(kept_loader, damaged):
    """With a narrow plan they are decoded by the thread that takes batches."""
    for batch in kept_loader(files=damaged, on_error="skip", lookahead=1, num_threads=1):
        good = batch.video == 0
        assert torch.equal(batch.frames[good], frames_of(damaged[0])[batch.index[good]])


def test_no_array_is_held_beside_them(kept_loader, monkeypatch):
    def refuse(_, size, **options):
        raise AssertionError(f"memory for arrays of {size} bytes")

    monkeypatch.setattr(memory.mmap, "mmap", refuse)
    assert len([*kept_loader()]) > 1
    with pytest.raises(AssertionError, match="memory for arrays"):
        list(kept_loader(decoding=None))


def test_a_batch_is_the_tensor_that_was_filled_and_the_callers_own(kept_loader):
    first, second = islice(kept_loader(), 2)
    before = second.frames.clone()
    first.frames.zero_()
    assert torch.equal(second.frames, before)
    assert first.frames.untyped_storage().nbytes() == first.frames.numel()


def test_the_budget_counts_them(kept_loader):
    each = kept_loader(memory_budget=60 * kit.FRAME_BYTES)
    list(each)
    assert 0 < each.statistics.most_held_bytes <= 60 * kit.FRAME_BYTES


def test_chance_turns_them_where_they_lie(kept_loader, layout):
    batch = next(iter(kept_loader("cameras", augment=ClipAugment(rotate_degrees=(9, 9)))))
    for file, frame, _, found in pictures(batch, layout):
        whole = Image.fromarray(frames_of(file)[frame].movedim(0, -1).numpy())
        right = np.asarray(whole.rotate(9, Image.Resampling.BILINEAR))
        assert np.array_equal(found.movedim(0, -1).numpy(), right)


@pytest.mark.parametrize("on_missing", ["mask", "repeat", "drop"])
def test_missing_frames_of_a_camera_are_black_repeated_or_dropped(kept_loader, early, on_missing):
    lacking, alignment = 0, Alignment(on_missing=on_missing)
    opens = partial(kept_loader, "cameras", early, alignment=alignment, lookahead=2)
    for batch, expected in zip(opens(), opens(decoding=DecoderConfig()), strict=True):
        assert torch.equal(batch.valid, expected.valid)
        assert torch.equal(batch.frame, expected.frame)
        check_pictures(batch, early)
        lacking += int((batch.frame[batch.clip >= 0] < 0).sum())
    assert (lacking > 0) == (on_missing == "mask")


def test_a_camera_that_a_window_lacks_is_black(kept_loader, copied):
    copied.clips[1].file(CAMERAS[2]).write_bytes(b"nothing")
    masked = {"on_error": "mask", "alignment": Alignment(on_missing="mask")}
    lacking = 0
    for batch in kept_loader("windows", copied, **masked):
        check_pictures(batch, copied)
        assert batch.frames[batch.frame >= 0].flatten(1).any(1).all()
        lacking += int((batch.frame < 0).sum())
    assert lacking > 0


def test_a_frame_that_a_slow_camera_shows_again_is_copied_there(kept_loader, two_rates):
    alignment = Alignment(sync="previous", tolerance_ms=150)
    each = kept_loader("cameras", two_rates, alignment=alignment, group_num=1, lookahead=1)
    for batch in each:
        check_pictures(batch, two_rates)
        batch.frames.zero_()  # as it is the caller's, the next one shows the frame all the same
    assert each.statistics.frames_decoded == 40


def test_frames_of_odd_sides_are_near_those_of_the_cpu(kept_loader, written):
    """On the CPU, with no row or column of colour missing."""
    odd = [written("odd_size")]
    opens = partial(kept_loader, files=odd, size=None)
    kept, arrays = next(zip(opens(), opens(decoding=DecoderConfig()), strict=False))
    assert tuple(kept.frames.shape[2:]) == (75, 53)
    assert apart(kept.frames, arrays.frames) <= 5


def test_invalid_options_of_kept_frames_are_refused_when_a_loader_opens(
    kept_loader, written, tmp_path, one_gpu, refused
):
    """Before any decoding; also images that the CPU makes into tensors."""
    full, mjpeg, odd = ([written(kind)] for kind in ("odd_size_444", "mjpeg", "odd_size"))
    noise = np.random.default_rng(0).integers(0, 256, (3, 64, 96, 3), np.uint8)
    png, jpg = (
        write_pictures(tmp_path / kind, {"clip": {"front": noise}}, f".{kind}")
        for kind in ("png", "jpg")
    )
    (tmp_path / "sequence").mkdir()
    for number in range(3):
        Image.new("RGB", (64, 48)).save(tmp_path / "sequence" / f"{number}.jpg", subsampling=2)
    sequence = [headrace.ImageSequence(tmp_path / "sequence", rate=10)]
    names = {"full": full, "mjpeg": mjpeg, "odd": odd, "png": png, "jpg": jpg}
    refused("kept", loader=kept_loader, sequence=sequence, **names)
    batch = next(iter(kept_loader(files=sequence, batch_size=3)))
    assert tuple(batch.frames.shape) == (3, 3, *SIZE)


@needs_torchcodec
def test_frames_by_torchcodec_cannot_be_kept(kept_loader):
    with pytest.raises(
        headrace.BackendError, match="torchcodec returns arrays; leave the backend out"
    ):
        kept_loader(decoding=DecoderConfig(backend="torchcodec", keeps_on_device=True))


def test_batches_of_the_cpu_may_be_asked_for_there(kept_loader, one_gpu):
    assert next(iter(kept_loader(device="cpu"))).frames.device.type == "cpu"


CROPS = {
    camera: headrace.CameraView(resize=0.5, crop=(20, 40 - 4 * k))
    for k, camera in enumerate(CAMERAS)
}
FRAMED = {"size": None, "view": CROPS, "augment": ClipAugment(flip=0.5)}


@needs_gpu
@pytest.mark.parametrize(
    ("door", "options", "levels"),
    [
        ("frames", {"num_threads": 1}, 1),
        ("clips", {"num_threads": 1}, 1),
        ("cameras", {**FRAMED, "ragged": "pad"}, 1),
        ("cameras", {**FRAMED, "ragged": "list"}, 1),
        ("windows", WAYS["plain"], 2),
        ("windows", WAYS["chance"], 2),
    ],
    ids=repr,
)
def test_pictures_of_the_gpu_that_stay_are_those_made_on_the_cpu(
    kept_loader, videos, layout, door, options, levels
):
    """All are held until the last has come; of frames, nothing is brought down after an epoch."""
    each = kept_loader(door, decoding=kit.ON_GPU, **options)
    kept = [*each]
    for expected, found in zip(kept_loader(door, **options), kept, strict=True):
        files = layout if "clip" in expected else videos
        both = zip(pictures(expected, files), pictures(found, files), strict=True)
        for (*place, right), (*found_place, picture) in both:
            assert str(picture.device) == "cuda:0"
            assert place == found_place
            assert not picture.numel() or apart(picture, right) <= levels
    if door in ("frames", "clips"):
        before = each.decode_counters.brought_down_bytes
        assert before > 0  # a keyframe of each decoder, compared with the CPU's
        assert list(each)
        assert each.decode_counters.brought_down_bytes == before


@needs_gpu
def test_frames_of_the_gpu_that_stay_are_right_on_a_stream_of_ones_own(kept_loader):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        of_gpu = kept_loader(decoding=kit.ON_GPU)
        sums = [batch.frames.sum((-1, -2), dtype=torch.int64) for batch in of_gpu]
        found = [batch.frames.clone() for batch in kept_loader("cameras", decoding=kit.ON_GPU)]
    stream.synchronize()
    for total, batch in zip(sums, kept_loader(), strict=True):
        expected = batch.frames.sum((-1, -2), dtype=torch.int64)
        assert apart(total, expected) <= SIZE[0] * SIZE[1]
    for frames, batch in zip(found, kept_loader("cameras"), strict=True):
        assert apart(frames, batch.frames) <= 1
