"""`batch.show()` of frames, clips, slots of cameras and windows."""

import copy
import io

import numpy as np
import pytest
import torch
from PIL import Image

from headrace import Batch, RandomClips, SequentialFrames
from headrace.decode.video_reader import open as open_video
from headrace.loaders.contact_sheet import HEIGHT, WIDTH
from loaders.cameras.clips import CAMERAS
from loaders.videos import SEGMENTS, SIZE

RED, WHITE = (255, 0, 0), (255, 255, 255)


@pytest.fixture
def frames(loader):
    """A batch of 40 frames of the first video, 32 x 48."""
    return next(iter(loader(sampling=SequentialFrames(), batch_size=40)))


@pytest.fixture
def clips(loader, manifest):
    """A batch of two labelled clips of 50 frames at 8 per second, padded at their end."""
    chosen = RandomClips(num_frames=50, fps=8, boundary="pad")
    return next(iter(loader("clips", manifest.subset([3, 2]), clips=chosen)))


@pytest.fixture
def slots(cameras, small):
    """Batches of two slots, of which one is empty at the end."""
    return list(cameras(small))


@pytest.fixture
def windowed(windows, small):
    """Windows of 3 moments up to moments 0 to 5 of clip a, and 0 of clip b."""
    options = {"num_moments": 3, "batch_size": 7, "sampling": SequentialFrames()}
    return next(iter(windows(small, **options)))


def cells(sheet):
    return [cell for strip in sheet.strips for cell in strip.cells]


def headings(sheet):
    return [strip.heading for strip in sheet.strips]


def marks(sheet):
    return [[cell.marks for cell in strip.cells] for strip in sheet.strips]


def unscaled(cell):
    """Return the image of a cell, 48 pixels wide enlarged to 288, as [3, H, W]."""
    return torch.from_numpy(cell.image[::6, ::6].copy()).movedim(-1, 0)


def test_pictures_that_fit_are_shown_pixel_by_pixel(frames):
    shown = cells(frames.show(samples=[3, 17]))
    for cell, position in zip(shown, (3, 17), strict=True):
        assert torch.equal(unscaled(cell), frames.frames[position])
        assert np.array_equal(cell.image, cell.image[::6, ::6].repeat(6, 0).repeat(6, 1))


def test_each_frame_has_a_caption_of_video_position_and_time(frames, videos):
    cell = cells(frames.show())[2]
    seconds = float(frames.pts_seconds[2])
    name = f"{videos[0].parent.name}/video-0.mp4"
    assert cell.lines == (name, f"#2, {seconds:.2f} s")
    for remade in (frames.to("cpu"), copy.deepcopy(frames)):
        assert cells(remade.show())[2].lines == cell.lines
    assert cells(Batch(dict(frames)).show(1))[0].lines[0] == "video 0"  # as rebuilt by a trainer


def test_a_clip_is_a_row_of_frames_in_time_with_its_label(clips, videos):
    sheet = clips.show()
    sizes = {1: "64 x 48", 2: "64 x 64"}
    assert headings(sheet) == [
        f"{videos[video].parent.name}/video-{video}.mp4, {label}, from {sizes[video]}"
        for video, _, _, label, *_ in (SEGMENTS[(3, 2)[row]] for row in clips.row)
    ]
    assert sheet.title == (f"2 of 2 clips, 8 of 50 frames of each; uint8 {[*clips.frames.shape]}",)
    for strip, index, is_pad in zip(sheet.strips, clips.index, clips.is_pad, strict=True):
        numbers = [f"#{number}" for number in index[::7].tolist()]
        assert [cell.lines[0].split(",")[0] for cell in strip.cells] == numbers
        assert [cell.marks == ("pad",) for cell in strip.cells] == is_pad[::7].tolist()
    assert clips.is_pad.any()


def test_every_mask_is_marked_by_a_word_and_a_border():
    batch = Batch(
        frames=torch.full((2, 3, 32, 32), 255, dtype=torch.uint8),
        is_repeated=torch.tensor([False, True]),
        is_concealed=torch.tensor([False, True]),
        is_pad=torch.zeros(2, dtype=torch.bool),
    )
    sheet = batch.show()
    assert [cell.marks for cell in cells(sheet)] == [(), ("concealed", "repeated")]
    drawn = sheet.image.load()
    assert drawn[8, 60] == WHITE  # left of the first image
    left = 10 + 320 + 10
    assert drawn[left - 2, 60] == (200, 30, 30)


@pytest.mark.parametrize("places", [[3, 17], (3, 17), np.array([3, 17]), torch.tensor([3, 17])])
def test_samples_are_chosen_by_any_list_of_places(frames, places):
    assert [cell.lines[1].split(",")[0] for cell in cells(frames.show(places))] == ["#3", "#17"]


def test_frames_that_were_read_by_hand_are_shown_as_a_clip(videos, store):
    with open_video(videos[0], size=SIZE, index_store=store) as reader:
        clip = reader.get_frames_at([5, 2, 39])
    batch = Batch.of_clip(clip)
    assert (len(batch), batch.frames.shape) == (1, (1, 3, 3, *SIZE))
    assert torch.equal(batch.frames[0].movedim(1, -1), torch.from_numpy(clip.frames))
    sheet, shown = batch.show(), zip((5, 2, 39), clip.pts_seconds, strict=True)
    assert headings(sheet) == [""]
    assert [cell.lines for cell in cells(sheet)] == [(f"#{n}, {at:.2f} s",) for n, at in shown]


def test_a_sheet_is_bounded_and_names_what_it_omits():
    many = Batch(frames=torch.zeros(600, 3, 40, 60, dtype=torch.uint8))
    assert many.show().title == ("32 of 600 frames; uint8 [600, 3, 40, 60]",)
    sheet = many.show(samples=600)
    shown = len(cells(sheet))
    assert 100 < shown < 600
    assert sheet.title[0].startswith(f"{shown} of 600 frames")
    odd = [(1, 3, 4000, 16), (1, 3, 16, 4000), (1, 3, 1, 1), (9, 1, 7, 9)]
    sheets = [Batch(frames=torch.zeros(shape, dtype=torch.uint8)).show() for shape in odd]
    for image, height in ((sheet.image, HEIGHT + 100), *((each.image, 1099) for each in sheets)):
        assert (image.width <= WIDTH, image.height <= height) == (True, True)


def colour(batch, **options):
    sheet = batch.show(**options)
    [cell] = cells(sheet)
    return tuple(cell.image[0, 0].tolist()), sheet.title[1:]


def flat(values, dtype=torch.float32):
    return Batch(frames=torch.tensor(values).to(dtype).view(1, 3, 1, 1).expand(1, 3, 8, 8))


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


def test_normalized_floats_without_mean_and_std_are_rescaled_with_a_note():
    note = "values from -2.00 (black) to 2.00 (white); give mean and std for colors"
    assert colour(flat([-2.0, 0.0, 2.0])) == ((0, 128, 255), (note,))
    for lost in (float("nan"), float("inf")):
        result, title = colour(flat([0.0, 1.0, lost]))
        assert result[:2] == (0, 255)
        assert title == ("values that are not finite are black or white",)


def test_clips_of_3d_networks_colour_last_and_normalised_values_are_understood(clips, windowed):
    for batch, frames in (
        (clips, clips.frames.transpose(1, 2)),
        (clips, clips.frames.movedim(2, -1)),
        (windowed, windowed.frames.movedim(-3, -1).float() / 255),
    ):
        other = type(batch)({**batch, "frames": frames})
        for result, wanted in zip(cells(other.show()), cells(batch.show()), strict=True):
            assert np.array_equal(result.image, wanted.image)


def test_cameras_are_rows_and_slots_stand_side_by_side(slots):
    sheet = slots[1].show()
    assert headings(sheet) == [*CAMERAS]
    assert [cell.lines[0] for cell in cells(sheet)] == slots[1].clip_name * 3
    assert sheet.title == ("2 of 2 slots, 3 of 3 cameras",)
    assert torch.equal(unscaled(sheet.strips[2].cells[1]), slots[1].frames[1, 2])
    expected = [("empty",) if clip < 0 else () for clip in slots[-1].clip]
    assert sorted(expected) == [(), ("empty",)]
    assert marks(slots[-1].show()) == [expected] * 3


def test_frames_that_are_missing_or_repeated_are_marked_and_sizes_may_differ(slots):
    batch = slots[0].to("cpu")
    batch.valid = torch.tensor([[True, False, False], [True, True, True]])
    batch.pts_seconds = batch.pts_seconds.clone()
    batch.pts_seconds[0, 1] = float("nan")
    assert marks(batch.show(samples=[0])) == [[()], [("missing",)], [("repeated",)]]
    batch.frames = [
        [torch.zeros(3, 20 + camera, 30) for camera in range(3)],
        [torch.empty(0), torch.ones(3, 50, 20), torch.ones(3, 5, 5)],
    ]
    assert batch.show().image.width > 0


def test_cameras_are_rows_and_moments_stand_side_by_side(windowed):
    sheet = windowed.show(samples=[3, 6])
    assert headings(sheet) == [f"{clip}, {camera}" for clip in "ab" for camera in CAMERAS]
    lines = [cell.lines[0] for cell in sheet.strips[0].cells]
    assert lines == ["#1, 0.03 s", "#2, 0.07 s", "#3, 0.10 s"]
    assert sheet.title == ("2 of 7 windows, 3 of 3 moments of each, 6 of 6 rows of cameras",)
    assert torch.equal(unscaled(sheet.strips[2].cells[1]), windowed.frames[3, 1, 2])
    assert sheet.image.width > 0
    assert len(windowed.show().strips) == 6
    assert {len(strip.cells) for strip in windowed.show(frames=2).strips} == {2}


def test_pads_and_frames_that_are_missing_repeated_or_concealed_are_marked(windowed):
    marked = windowed.to("cpu")
    for name in ("valid", "pts_seconds", "is_concealed"):
        marked[name] = marked[name].clone()
    marked.valid[3, 0, :2] = False
    marked.pts_seconds[3, 0, 1] = float("nan")
    marked.is_concealed[3, 2, 0] = True
    back, front, _ = marks(marked.show(samples=[3]))
    assert back == [("repeated",), (), ("concealed",)]
    assert front == [("missing",), (), ()]
    assert marks(windowed.show(samples=[0]))[0] == [("pad",), ("pad",), ()]


def of_shape(batch, *shape):
    """Return a batch with frames of another shape."""
    return type(batch)({**batch, "frames": torch.zeros(shape)})


def test_invalid_sheets_are_refused(tmp_path, monkeypatch, refused):
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    refused("sheet")
    assert list((tmp_path / "own").iterdir()) == []


def test_a_notebook_shows_the_picture_that_is_saved(frames, tmp_path):
    sheet = frames.show()
    sheet.save(tmp_path / "batch.png")
    assert (tmp_path / "batch.png").read_bytes() == sheet._repr_png_()
    shown = Image.open(io.BytesIO(sheet._repr_png_()))
    assert np.array_equal(np.asarray(shown), np.asarray(sheet.image))
    assert repr(sheet) == "ContactSheet(32 images: 32 of 40 frames; uint8 [40, 3, 32, 48])"
    sheet.save(str(tmp_path / "batch.JPG"))
    with Image.open(tmp_path / "batch.JPG") as again:
        assert again.size == sheet.image.size


def test_names_are_no_entries_of_a_batch_and_its_text_stays_its_shapes(frames):
    names = "frames video index pts_seconds original_size is_concealed is_repeated is_pad row"
    assert [*frames] == names.split()
    assert repr(frames).startswith("Batch(40 samples: frames uint8 [40, 3, 32, 48]")
    assert not hasattr(frames, "_repr_png_")


def test_a_name_of_any_characters_can_be_drawn():
    batch = Batch(
        frames=torch.zeros(2, 3, 16, 16, dtype=torch.uint8), label=["a\nb" * 300, "\udcff視"]
    )
    assert batch.show().image.height < 700
