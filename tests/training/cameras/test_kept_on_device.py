"""Pictures that stay where they were decoded: those of `open_device_decoder`, in batches."""

import json
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image

from decode.gpus import needs_gpu
from headrace.decode.decoding import Decoding
from headrace.errors import BackendError, ConfigError, DecodeError
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.augment import ClipAugment
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.view import CameraView
from headrace.video.camera_layout import CameraLayout
from headrace.video.shape import FrameShape
from training.cameras.clips import CAMERAS, LENGTHS, SIZE, cells, contents, copy_layout
from training.decoded_there import KEPT, LEVELS, ON_GPU, apart, frames_of

ALL = {(clip, k) for clip, length in enumerate(LENGTHS.values()) for k in range(length)}


@pytest.fixture
def loader(store, layout):
    opened = []

    def open_loader(layout=layout, **options):
        asked = {"group_num": 4, "size": SIZE, "decoding": KEPT, "store": store, **options}
        opened.append(CameraLoader(layout, workers=asked.pop("workers", 2), **asked))
        return opened[-1]

    yield open_loader
    for each in opened:
        each.close()


class DecodedThere:
    """Every frame of a layout, as a decoder leaves it on the device."""

    def __init__(self, layout, shape=None):
        shape = shape or FrameShape(size=SIZE)
        self._frames = [
            [frames_of(clip.file(camera), shape) for camera in layout.cameras]
            for clip in layout.clips
        ]

    def of(self, clip, camera, frame) -> torch.Tensor:
        """Return one frame, uint8 [3, H, W]."""
        return self._frames[clip][camera][frame].movedim(-1, 0)


@pytest.fixture(scope="module")
def there(layout):
    return DecodedThere(layout)


def pictures(batch):
    """Yield (clip, camera, frame, picture) of all that a batch shows; frame is -1 where none."""
    for row, clip in enumerate(batch.clip.tolist()):
        for camera in range(len(CAMERAS)):
            yield clip, camera, int(batch.frame[row, camera]), batch.frames[row][camera]


@pytest.mark.parametrize("workers", [1, 3])
def test_pictures_are_those_that_the_device_decoder_leaves_there(loader, there, workers):
    each = loader(workers=workers)
    batches = list(each)
    assert sorted(cell[1:] for cell in cells(batches)) == sorted(ALL)
    for batch in batches:
        assert batch.frames.shape == (4, len(CAMERAS), 3, *SIZE)
        assert (batch.frames.dtype, batch.frames.device.type) == (torch.uint8, "cpu")
        assert batch.frames.stride(-3) == 1  # a view of what was decoded into
        for clip, camera, frame, picture in pictures(batch):
            if clip < 0:
                assert not picture.any()
            else:
                assert torch.equal(picture, there.of(clip, camera, frame))
    assert each.statistics.amplification == 1.0


def test_they_differ_from_arrays_by_a_few_grey_levels_and_in_nothing_else(loader):
    for kept, came_down in zip(loader(), loader(decoding=Decoding()), strict=True):
        for name, value in came_down.items():
            if name == "frames":
                assert apart(value, kept.frames) <= LEVELS
            elif isinstance(value, torch.Tensor):
                assert torch.equal(value.nan_to_num(-1), kept[name].nan_to_num(-1)), name
            else:
                assert value == kept[name], name


@pytest.mark.parametrize("step", [1, 9])
def test_the_rest_equals_that_of_an_uninterrupted_run(loader, step):
    options = {"shuffle": True, "augment": ClipAugment(flip=0.5)}
    uninterrupted = contents(loader(**options))
    begun = loader(**options)
    seen = contents(islice(begun, step))
    resumed = loader(workers=1, lookahead=2, **options)
    resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    assert seen + contents(resumed) == uninterrupted


def test_chance_flips_and_turns_them_where_they_lie(loader, there):
    flips = set()
    for batch in loader(augment=ClipAugment(flip=0.5, alike=False)):
        for row, clip in enumerate(batch.clip.tolist()):
            for camera in range(len(CAMERAS) if clip >= 0 else 0):
                is_flipped = bool(batch.image_matrix[row, camera, 0, 0] < 0)
                right = there.of(clip, camera, int(batch.frame[row, camera]))
                found = batch.frames[row, camera]
                assert torch.equal(found, right.flip(-1) if is_flipped else right)
                flips.add(is_flipped)
    assert flips == {True, False}
    turned = loader(augment=ClipAugment(rotate_degrees=(9, 9)))
    batch = next(iter(turned))
    for clip, camera, frame, found in pictures(batch):
        whole = Image.fromarray(there.of(clip, camera, frame).movedim(0, -1).numpy())
        right = np.asarray(whole.rotate(9, Image.Resampling.BILINEAR))
        assert np.array_equal(found.movedim(0, -1).numpy(), right)


def test_views_crop_them(loader, layout):
    view = CameraView(resize=0.5, crop=(20, 40), anchor="bottom")
    fitting = view.fitting((64, 96))
    there = DecodedThere(layout, FrameShape(size=fitting.size, fit=fitting))
    for batch in islice(loader(size=None, view=view), 3):
        for clip, camera, frame, picture in pictures(batch):
            assert torch.equal(picture, there.of(clip, camera, frame))


@pytest.fixture
def early(folder, tmp_path):
    """A layout whose camera `left` of clip a ends early."""
    copied = copy_layout(folder, tmp_path / "early")
    path = copied.clips[0].file("left")
    path.unlink()
    write_clip(path.with_suffix(""), SynthClip(num_frames=12, size=(64, 96), gop=5))
    return copied


@pytest.mark.parametrize("on_missing", ["mask", "repeat", "drop"])
def test_what_a_camera_lacks_is_black_repeated_or_left_out(loader, early, on_missing):
    there, lacking = DecodedThere(early), 0
    asked = {"alignment": Alignment(on_missing=on_missing), "lookahead": 2}
    arrays = iter(loader(early, decoding=Decoding(), **asked))
    for batch in loader(early, **asked):
        expected = next(arrays)
        assert torch.equal(batch.valid, expected.valid)
        assert torch.equal(batch.frame, expected.frame)
        for clip, camera, frame, picture in pictures(batch):
            if clip < 0 or frame < 0:
                assert not picture.any()
                lacking += clip >= 0
            else:
                assert torch.equal(picture, there.of(clip, camera, frame))
    assert next(arrays, None) is None
    assert (lacking > 0) == (on_missing == "mask")


def test_a_frame_that_a_slow_camera_shows_again_is_copied_there(loader, tmp_path):
    (tmp_path / "clip").mkdir()
    for camera, rate in {"a_fast": 30, "b_slow": 10}.items():
        clip = SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96))
        write_clip(tmp_path / "clip" / camera, clip)
    layout = CameraLayout.of_folders([tmp_path], lambda file: 30)
    there = DecodedThere(layout)
    each = loader(
        layout,
        alignment=Alignment(sync="previous", tolerance_ms=150),
        group_num=1,
        lookahead=1,
    )
    for batch in each:
        for camera, frame in enumerate(batch.frame[0].tolist()):
            assert torch.equal(batch.frames[0, camera], there.of(0, camera, frame))
        batch.frames.zero_()  # as it is the caller's, the next one shows the frame all the same
    assert each.statistics.frames_decoded == 40


def test_a_damaged_frame_is_named_or_black(loader, layout, folder, tmp_path):
    copied = copy_layout(folder, tmp_path / "damaged")
    victim = copied.clips[2].file("front")
    damage_packets(layout.clips[2].file("front"), victim, ordinals=[13])
    with pytest.raises(DecodeError, match=r"c/front\.mp4"):
        list(loader(copied))
    each = loader(copied, on_error="mask", lookahead=1)
    for batch in each:
        for row, camera in np.argwhere(~batch.valid.numpy() & (batch.clip >= 0).numpy()[:, None]):
            assert (batch.clip[row], CAMERAS[camera]) == (2, "front")
            assert not batch.frames[row, camera].any()
    assert each.statistics.frames_lost > 0


def test_cameras_of_different_sizes_are_padded_or_listed(loader, folder, tmp_path):
    copied = copy_layout(folder, tmp_path / "ragged")
    copied.clips[0].file("left").unlink()
    tall = SynthClip(num_frames=20, size=(96, 64), gop=6)
    write_clip(copied.clips[0].file("left").with_suffix(""), tall)
    there = DecodedThere(copied, FrameShape())
    ways = [loader(copied, size=None, ragged=ragged) for ragged in ("pad", "list")]
    for padded, listed in zip(*ways, strict=True):
        assert padded.frames.shape == (4, 3, 3, 96, 96)
        assert torch.equal(padded.sizes, listed.sizes)
        for (clip, camera, frame, whole), (*_, picture) in zip(
            pictures(padded), pictures(listed), strict=True
        ):
            height, width = picture.shape[-2:]
            assert torch.equal(whole[:, :height, :width], picture)
            assert not whole[:, height:].any()
            assert not whole[..., width:].any()
            if clip >= 0:
                assert torch.equal(picture, there.of(clip, camera, frame))
            else:
                assert not picture.numel()


def test_transforms_are_given_them(loader):
    each = loader(transform=lambda frames: frames.float().mean((-1, -2)))
    assert next(iter(each)).frames.shape == (4, 3, 3)


def pictured(folder, suffix):
    """Return a layout of one clip of one camera, as pictures."""
    where = folder / "clip" / "front"
    where.mkdir(parents=True)
    for number in range(3):
        picture = np.random.default_rng(number).integers(0, 256, (64, 96, 3), np.uint8)
        Image.fromarray(picture).save(where / f"{number:05d}{suffix}")
    return CameraLayout.of_folders([folder], len, picture_rate=10)


def test_pictures_that_do_not_become_rgb_there_are_refused_when_a_loader_opens(loader, tmp_path):
    with pytest.raises(
        BackendError, match=r"front.* are stored as rgb24; .* leave keeps_on_device out"
    ):
        loader(pictured(tmp_path, ".png"), on_error="mask")


@pytest.fixture
def one_gpu(monkeypatch):
    """PyTorch says that there is one; nothing is asked of it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


def test_video_that_gpus_do_not_decode_is_refused_when_a_loader_opens(loader, tmp_path, one_gpu):
    with pytest.raises(
        BackendError,
        match=r"GPU 0 was asked .*front.* pictures in order .mjpeg., .* leave gpu out",
    ):
        loader(pictured(tmp_path, ".jpg"), decoding=ON_GPU)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"pin_memory": True}, ConfigError, r"pin_memory=True .* stay on cuda:0.* leave pin_mem"),
        ({"device": "cpu"}, ConfigError, r"device='cpu' .* stay on cuda:0.* leave keeps_on_dev"),
    ],
)
def test_what_would_bring_pictures_down_is_refused(loader, one_gpu, options, error, words):
    with pytest.raises(error, match=words):
        loader(decoding=ON_GPU, **options)


def test_a_gpu_that_is_not_here_is_refused_when_a_loader_opens(loader):
    kept = Decoding(device="cuda:99", keeps_on_device=True)
    with pytest.raises(BackendError, match=r"decoding on GPU 99 "):
        loader(decoding=kept)


@pytest.mark.parametrize("decoding", [KEPT, ON_GPU], ids=lambda decoding: decoding.device)
def test_a_dataset_whose_items_go_through_workers_refuses_them(layout, store, one_gpu, decoding):
    words = rf"were to stay on {decoding.device}, .* CameraLoader .* leave keeps_on_device out"
    with pytest.raises(BackendError, match=words):
        CameraStreamDataset(layout, size=SIZE, decoding=decoding, store=store)


def test_a_dataset_is_told_what_decodes_once_and_in_full_or_by_a_number(layout, store):
    with pytest.raises(ConfigError, match="give decoding or gpu, got both"):
        CameraStreamDataset(layout, size=SIZE, decoding=Decoding(), gpu=99, store=store)
    with pytest.raises(BackendError, match="decoding on GPU 99 "):
        CameraStreamDataset(layout, size=SIZE, decoding=Decoding.on_gpu(99), store=store)


@needs_gpu
@pytest.mark.parametrize("ragged", ["pad", "list"])
def test_pictures_of_the_gpu_that_stay_are_those_made_on_the_cpu(loader, layout, ragged):
    views = {
        camera: CameraView(resize=0.5, crop=(20, 40 - 4 * place))
        for place, camera in enumerate(layout.cameras)
    }
    options = {"size": None, "view": views, "augment": ClipAugment(flip=0.5), "ragged": ragged}
    kept = [*loader(decoding=ON_GPU, **options)]  # all of them: none is overwritten by a later one
    for expected, found in zip(loader(**options), kept, strict=True):
        for (*_, right), (*_, picture) in zip(pictures(expected), pictures(found), strict=True):
            assert str(picture.device) == "cuda:0"
            if picture.numel():
                assert apart(picture, right) <= 1


@needs_gpu
def test_batches_of_the_gpu_are_ready_on_a_stream_of_ones_own(loader):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = [batch.frames.clone() for batch in loader(decoding=ON_GPU)]
    stream.synchronize()
    for expected, frames in zip(loader(), found, strict=True):
        assert apart(frames, expected.frames) <= 1
