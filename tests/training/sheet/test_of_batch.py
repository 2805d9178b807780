"""What a batch shows of itself."""

import copy
import io

import numpy as np
import pytest
import torch
from PIL import Image

from headrace.decode.video_reader import open as open_video
from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import InOrder
from headrace.training.batch import Batch
from headrace.training.clip_loader import ClipLoader
from headrace.training.loader import FrameLoader
from headrace.training.manifest.manifest import Manifest
from headrace.training.sheet.look import HEIGHT, WIDTH
from training.videos import SIZE

RED, WHITE = (255, 0, 0), (255, 255, 255)


@pytest.fixture(scope="module")
def frames(videos, store):
    """A batch of 40 frames of the first video, 32 x 48."""
    with FrameLoader(
        videos, size=SIZE, sampling=InOrder(), batch_size=40, workers=1, store=store
    ) as loader:
        return next(iter(loader))


@pytest.fixture(scope="module")
def clips(videos, store):
    """A batch of two clips of 50 frames at 8 a second, labelled, padded at their end."""
    rows = [{"path": each, "label": label} for each, label in zip(videos, "rwrw", strict=True)]
    chosen = RandomClips(num_frames=50, fps=8, boundary="pad")
    with ClipLoader(
        Manifest.of_rows(rows).subset([0, 1]),
        clips=chosen,
        size=SIZE,
        batch_size=2,
        workers=1,
        store=store,
    ) as loader:
        return next(iter(loader))


def cells(sheet):
    return [cell for strip in sheet.strips for cell in strip.cells]


def plain(**entries):
    """A batch that says nothing but its frames."""
    return Batch(**entries)


def test_pictures_that_fit_are_shown_pixel_by_pixel(frames):
    shown = cells(frames.show(samples=[3, 17]))
    for cell, place in zip(shown, (3, 17), strict=True):
        small = cell.picture[::6, ::6]  # 48 pixels wide in a room of 320
        assert np.array_equal(small, frames.frames[place].permute(1, 2, 0).numpy())
        assert np.array_equal(cell.picture, small.repeat(6, 0).repeat(6, 1))


def test_each_frame_says_its_video_place_and_time(frames, videos):
    cell = cells(frames.show())[2]
    folder = videos[0].parent.name
    seconds = float(frames.pts_seconds[2])
    assert cell.lines == (f"{folder}/video-0.mp4", f"#2, {seconds:.2f} s")


def test_a_clip_is_a_row_of_frames_in_time_with_its_label(clips, videos):
    sheet = clips.show()
    folder = videos[0].parent.name
    assert [strip.heading for strip in sheet.strips] == [
        f"{folder}/video-0.mp4, r, from 96 x 64",
        f"{folder}/video-1.mp4, w, from 64 x 48",
    ]
    assert sheet.title == (f"2 of 2 clips, 8 of 50 frames of each; uint8 {[*clips.frames.shape]}",)
    steps = [0, 7, 14, 21, 28, 35, 42, 49]
    for place, strip in enumerate(sheet.strips):
        assert [cell.lines[0].split(",")[0] for cell in strip.cells] == [
            f"#{index}" for index in clips.index[place, steps].tolist()
        ]
        assert [cell.marks == ("pad",) for cell in strip.cells] == clips.is_pad[
            place, steps
        ].tolist()
    assert clips.is_pad.any()


def test_every_mask_is_marked_by_a_word_and_a_border():
    none = torch.zeros(2, dtype=torch.bool)
    batch = plain(
        frames=torch.full((2, 3, 32, 32), 255, dtype=torch.uint8),
        is_repeated=torch.tensor([False, True]),
        is_concealed=torch.tensor([False, True]),
        is_pad=none,
    )
    sheet = batch.show()
    assert [cell.marks for cell in cells(sheet)] == [(), ("concealed", "repeated")]
    drawn = sheet.image.load()
    assert drawn[8, 60] == WHITE  # left of the first picture
    left = 10 + 320 + 10
    assert drawn[left - 2, 60] == (200, 30, 30)


@pytest.mark.parametrize("places", [[3, 17], (3, 17), np.array([3, 17]), torch.tensor([3, 17])])
def test_samples_are_chosen_by_any_list_of_places(frames, places):
    assert [cell.lines[1].split(",")[0] for cell in cells(frames.show(places))] == ["#3", "#17"]


def test_frames_that_were_read_by_hand_are_shown_as_a_clip(videos, store):
    with open_video(videos[0], size=SIZE, store=store) as reader:
        clip = reader.read([5, 2, 39])
        batch = Batch.of_clip(clip)
    assert (len(batch), batch.frames.shape) == (1, (1, 3, 3, *SIZE))
    assert torch.equal(batch.frames[0].movedim(1, -1), torch.from_numpy(clip.frames))
    [strip] = batch.show().strips
    assert strip.heading == ""
    assert [cell.lines[0] for cell in strip.cells] == [
        f"#{place}, {seconds:.2f} s"
        for place, seconds in zip((5, 2, 39), clip.pts_seconds, strict=True)
    ]


def test_what_is_left_out_is_said_and_a_sheet_is_bounded():
    many = plain(frames=torch.zeros(600, 3, 40, 60, dtype=torch.uint8))
    assert many.show().title == ("32 of 600 frames; uint8 [600, 3, 40, 60]",)
    sheet = many.show(samples=600)
    shown = len(cells(sheet))
    assert 100 < shown < 600
    assert sheet.title[0].startswith(f"{shown} of 600 frames")
    assert sheet.image.width <= WIDTH
    assert sheet.image.height <= HEIGHT + 100


@pytest.mark.parametrize("shape", [(1, 3, 4000, 16), (1, 3, 16, 4000), (1, 3, 1, 1), (9, 1, 7, 9)])
def test_pictures_of_odd_shapes_are_bounded_too(shape):
    image = plain(frames=torch.zeros(shape, dtype=torch.uint8)).show().image
    assert image.width <= WIDTH
    assert image.height < 1100


def colour(batch, **options):
    sheet = batch.show(**options)
    [cell] = cells(sheet)
    return tuple(cell.picture[0, 0].tolist()), sheet.title[1:]


def flat(values, dtype=torch.float32):
    return plain(frames=torch.tensor(values).to(dtype).view(1, 3, 1, 1).expand(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([255, 0, 7], torch.uint8, (255, 0, 7)),
        ([65535, 0, 257], torch.uint16, (255, 0, 1)),
        ([1.0, 0.0, 0.5], torch.float32, (255, 0, 128)),
        ([1.0, 0.0, 0.5], torch.float16, (255, 0, 128)),
        ([1.0, 0.0, 0.5], torch.bfloat16, (255, 0, 128)),
        ([255.0, 0.0, 51.0], torch.float32, (255, 0, 51)),
        ([255, 0, 51], torch.int64, (255, 0, 51)),
        ([1, 0, 1], torch.bool, (255, 0, 255)),
    ],
)
def test_values_of_every_kind_become_colours(values, dtype, expected):
    assert colour(flat(values, dtype)) == (expected, ())


def test_normalised_floats_come_back_with_their_mean_and_std():
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    wanted = torch.tensor([200, 100, 0]) / 255
    batch = flat(((wanted - torch.tensor(mean)) / torch.tensor(std)).tolist())
    assert colour(batch, mean=mean, std=std) == ((200, 100, 0), ("mean and std undone",))
    assert colour(flat([-1.0, 0.0, 1.0]), mean=[0.5], std=[0.5])[0] == (0, 128, 255)


def test_normalised_floats_are_stretched_without_them_and_that_is_said():
    assert colour(flat([-2.0, 0.0, 2.0])) == (
        (0, 128, 255),
        ("values from -2.00 (black) to 2.00 (white); give mean and std for colours",),
    )


@pytest.mark.parametrize("lost", [float("nan"), float("inf")])
def test_values_that_are_no_numbers_are_said(lost):
    found, title = colour(flat([0.0, 1.0, lost]))
    assert found[:2] == (0, 255)
    assert title == ("some values are no numbers, shown black or white",)


def test_clips_of_3d_networks_and_colour_last_are_understood(clips):
    swapped = Batch({**clips, "frames": clips.frames.transpose(1, 2)})
    last = Batch({**clips, "frames": clips.frames.movedim(2, -1)})
    wanted = [cell.picture.tobytes() for cell in cells(clips.show())]
    for each in (swapped, last):
        assert [cell.picture.tobytes() for cell in cells(each.show())] == wanted


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (None, "got NoneType"),
        (torch.zeros(2, 7), r"got \[2, 7\]; show them before the transform"),
        (torch.zeros(2, 5, 8, 8), "no dimension of 3 colours"),
        (torch.zeros(0, 3, 8, 8), "which shows nothing"),
        (torch.zeros(2, 3, 0, 8), "which shows nothing"),
    ],
)
def test_frames_that_are_no_pictures_are_refused(frames, said):
    with pytest.raises(ConfigError, match=said):
        plain(frames=frames).show()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"samples": 0}, "samples must be an integer >= 1, got 0"),
        ({"samples": 2.5}, "samples must be an integer >= 1, got 2.5"),
        ({"samples": "all"}, "samples must be an integer >= 1, got 'all'"),
        ({"samples": [0, 40]}, r"samples must be some of the 40 places .* got \[0, 40\]"),
        ({"samples": [-1]}, r"samples\[0\] must be an integer >= 0, got -1"),
        ({"samples": []}, "samples must be some of the 40"),
        ({"frames": 0}, "frames must be an integer >= 1"),
        ({"frames": 17}, "frames must be at most 16, got 17"),
        ({"mean": (0.5,)}, "give both, or neither"),
        ({"mean": (0.5, 0.5), "std": (1.0, 1.0)}, "3 numbers or one, got 2"),
        ({"mean": "0.5", "std": 1}, "mean and std must be numbers"),
        ({"mean": float("nan"), "std": 1}, "mean and std must be numbers, got nan"),
        ({"mean": 0.5, "std": 0}, "std must be above 0"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(frames, options, said):
    with pytest.raises(ConfigError, match=said):
        frames.show(**options)


def test_a_notebook_shows_the_picture_that_is_saved(frames, tmp_path):
    sheet = frames.show()
    sheet.save(tmp_path / "batch.png")
    assert (tmp_path / "batch.png").read_bytes() == sheet._repr_png_()
    shown = Image.open(io.BytesIO(sheet._repr_png_()))
    assert np.array_equal(np.asarray(shown), np.asarray(sheet.image))
    assert repr(sheet) == "ContactSheet(32 pictures: 32 of 40 frames; uint8 [40, 3, 32, 48])"
    sheet.save(str(tmp_path / "batch.JPG"))
    with Image.open(tmp_path / "batch.JPG") as again:
        assert again.size == sheet.image.size


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("batch", "saved as .png, .jpg, .jpeg, .webp, got 'batch'"),
        ("batch.mp4", "give a name such as"),
        ("no/such/folder/batch.png", "cannot write"),
        (None, "saved to a path, got None"),
        (b"batch.png", "saved to a path"),
    ],
)
def test_a_picture_that_cannot_be_saved_is_refused(path, said, frames, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        frames.show(1).save(path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_trainer_built_anew_is_shown_by_number(frames):
    again = Batch(dict(frames))
    assert cells(again.show(1))[0].lines[0] == "video 0"


@pytest.mark.parametrize("remade", [lambda batch: batch.to("cpu"), copy.deepcopy])
def test_a_batch_that_was_moved_or_copied_keeps_its_names(frames, remade):
    assert cells(remade(frames).show(1))[0].lines == cells(frames.show(1))[0].lines


def test_names_are_no_entries_of_a_batch(frames):
    assert [*frames] == [
        *("frames", "video", "index", "pts_seconds", "original_size", "is_concealed"),
        *("is_repeated", "is_pad", "row"),
    ]


def test_a_name_of_any_characters_can_be_drawn():
    batch = plain(
        frames=torch.zeros(2, 3, 16, 16, dtype=torch.uint8), label=["a\nb" * 300, "\udcff視"]
    )
    assert batch.show().image.height < 700


def test_a_batch_in_text_stays_its_shapes(frames):
    assert repr(frames).startswith("Batch(40 samples: frames uint8 [40, 3, 32, 48]")
    assert not hasattr(frames, "_repr_png_")
