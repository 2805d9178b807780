"""Annotated videos, playable however writing ends."""

import signal
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import VideoReformatter

from cli.kit import python
from headrace.errors import BackendError, ConfigError
from headrace.sinks.annotated import AnnotatedVideos
from headrace.sinks.video_file import VideoFile
from headrace.video.pyav_version import to_rgb
from sinks.made import disk_full_after, noise
from sinks.web.faked_run import labelled_frame

RATE = Fraction(25)
SHOWN = """new Promise(done => {{
    const video = document.querySelector('video');
    const before = video.shown || 0;
    const painted = (now, frame) => {{
        if (frame.mediaTime === before) return video.requestVideoFrameCallback(painted);
        video.shown = frame.mediaTime;
        done(frame.mediaTime);
    }};
    video.requestVideoFrameCallback(painted);
    video.currentTime = {};
}})"""
"""Seeks, and returns the time of the next displayed frame. A busy browser may first display the
previous frame again."""
KILLED = """
import os, sys; from fractions import Fraction; from pathlib import Path
import numpy as np; from headrace.sinks.video_file import VideoFile
video = VideoFile(Path(sys.argv[1]), Fraction(25), is_endless=True)
source = np.random.default_rng(0)
for k in range(150):
    video.write(source.integers(0, int(sys.argv[2]), (240, 320, 3), np.uint8), k / 25)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "out.mp4"


def flat(color: object, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    return np.full((*size, 3), color, np.uint8)


def write(
    path: Path,
    frames: Iterable[np.ndarray],
    times: Sequence[float] = tuple(k / 25 for k in range(999)),
    *,
    rate: Fraction = RATE,
    then: Exception | None = None,
    is_endless: bool = False,
) -> None:
    """Write frames at their times; raise `then` before the file is closed."""
    with VideoFile(path, rate, is_endless=is_endless) as video:
        for frame, seconds in zip(frames, times, strict=False):
            video.write(frame, seconds)
        if then is not None:
            raise then


def read(path: Path) -> tuple[av.VideoStream, list[av.VideoFrame]]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream, list(container.decode(stream))


def times_in(path: Path) -> list[float]:
    return [frame.time for frame in read(path)[1]]


def boxes(path: Path) -> list[str]:
    """Return the kinds of the top-level boxes of an MP4, in order."""
    content, offset, kinds = path.read_bytes(), 0, []
    while offset < len(content):
        length, kind = struct.unpack(">I4s", content[offset : offset + 8])
        kinds.append(kind.decode())
        offset += length
    return kinds


@pytest.mark.parametrize("size", [(48, 64), (47, 63), (1, 1)])
def test_frames_are_read_back_with_their_times(path, size):
    times = [0.0, 0.04, 0.5, 0.54]
    write(path, (flat(60 * k, size) for k in range(4)), times)
    stream, frames = read(path)
    assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    assert times_in(path) == pytest.approx(times)
    shades = [f.to_ndarray(format="rgb24").mean() for f in frames]
    assert shades == pytest.approx([0, 60, 120, 180], abs=4)
    assert (frames[0].height, frames[0].width) == tuple(n + n % 2 for n in size)


def test_colors_are_preserved_and_tagged(path):
    colors = [(200, 30, 60), (20, 180, 90), (30, 60, 220), (240, 240, 20)]
    write(path, map(flat, colors))
    stream, frames = read(path)
    scaler = VideoReformatter()
    images = [scaler.reformat(frame, format="rgb24", **to_rgb(frame)) for frame in frames]
    means = [image.to_ndarray().mean(axis=(0, 1)) for image in images]
    assert np.allclose(means, colors, atol=6)
    context = stream.codec_context
    assert (context.colorspace, context.color_primaries, context.color_trc) == (1, 1, 1)
    assert context.color_range == 1


def test_an_odd_row_and_column_are_repeated(path):
    frame = flat(0, (33, 47))
    frame[-1], frame[:, -1] = 255, 255
    write(path, [frame])
    [decoded] = read(path)[1]
    image = decoded.to_ndarray(format="rgb24")
    assert image.shape == (34, 48, 3)
    assert image[-2:].mean() > 230 < image[:, -2:].mean()


@pytest.mark.parametrize("can_rewrite", [True, False])
def test_the_index_is_first_so_that_browsers_play_at_once(path, can_rewrite):
    """If the file cannot be rewritten, the index stays at the end."""
    if not can_rewrite:
        (path.parent / ".out.mp4.partial").mkdir()  # blocks the second file
    write(path, noise(3))
    kinds = boxes(path)
    assert (kinds.index("moov") < kinds.index("mdat")) == can_rewrite
    assert len(read(path)[1]) == 3


def test_times_that_do_not_advance_are_incremented(path):
    write(path, [flat(0)] * 3, [1.0] * 3)
    assert len(read(path)[1]) == 3


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 5000), Fraction(90_000)])
def test_any_frame_rate_is_supported(path, rate):
    write(path, [flat(0)] * 3, [0, 0.5, 1.0], rate=rate)
    assert times_in(path) == pytest.approx([0, 0.5, 1.0])


@pytest.mark.parametrize("count", [1, 0])
def test_an_existing_file_is_replaced_or_removed(path, count):
    path.write_bytes(b"older" * 10_000)
    write(path, [flat(0)] * count)
    assert path.exists() == bool(count)
    assert not count or (len(read(path)[1]), b"older" in path.read_bytes()) == (1, False)


def test_written_frames_play_after_another_error(path):
    with pytest.raises(RuntimeError, match="another error"):
        write(path, [flat(0)] * 3, then=RuntimeError("another error"))
    assert len(read(path)[1]) == 3


def test_closing_is_idempotent_and_writing_afterwards_is_an_error(path):
    video = VideoFile(path, RATE)
    video.write(flat(0), 0.0)
    video.close()
    video.close()
    with pytest.raises(ConfigError, match=r"cannot write a frame to .*out\.mp4: it is closed"):
        video.write(flat(0), 0.1)
    assert len(read(path)[1]) == 1


def too_wide(path: Path) -> None:
    write(path, [flat(0, (2, 16_386))])


def full(num_bytes: int, count: int, **options: object):
    """Return a function that writes noise to a disk with room for `num_bytes`."""

    def write_noise(path: Path) -> None:
        with disk_full_after(num_bytes):
            write(path, noise(count), **options)

    return write_noise


@pytest.mark.parametrize(
    ("write_video", "error", "message"),
    [
        (full(0, 24), ConfigError, r"out\.mp4: file too large; it was removed; give"),
        (full(60_000, 24), ConfigError, r"out\.mp4: file too large; it was removed; give"),
        (full(0, 70, is_endless=True), ConfigError, "file too large"),
        (full(0, 1, then=RuntimeError("the first error")), RuntimeError, "the first error"),
        (too_wide, BackendError, r"cannot encode frames of 2x16386 .* with libx264"),
    ],
)
def test_a_failure_leaves_no_unplayable_file(path, write_video, error, message):
    """A failure on closing does not hide the first error."""
    with pytest.raises(error, match=message):
        write_video(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("is_endless", [True, False])
def test_a_full_disk_leaves_the_playable_part(path, is_endless):
    message = r"cannot write .*out\.mp4: file too large; the written part plays; give"
    with pytest.raises(ConfigError, match=message):
        full(5_000_000, 200, is_endless=is_endless)(path)
    assert list(path.parent.iterdir()) == [path]
    times = times_in(path)
    assert len(times) > 60
    assert times == pytest.approx([k / 25 for k in range(len(times))])


@pytest.mark.parametrize("max_value", [256, 1], ids=["noise", "black"])
def test_a_recording_plays_after_a_power_cut(path, max_value):
    """The process is killed without closing the file. Black frames need few bytes."""
    assert python(KILLED, path, max_value).returncode == -signal.SIGKILL
    times = []
    with av.open(str(path)) as container, suppress(av.error.InvalidDataError):
        for frame in container.decode(video=0):
            times.append(frame.time)
    assert len(times) > 60
    assert times == pytest.approx([k / 25 for k in range(len(times))])


def test_a_closed_recording_has_an_index(path):
    write(path, noise(130), is_endless=True)
    assert boxes(path)[-2:] == ["mdat", "moov"]
    assert times_in(path) == pytest.approx([k / 25 for k in range(130)])


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"size": (96, 96)}, {"-1": 5, "-1.2": 1, "-0": 1}),
        ({"size": (64, 64), "pts": 0}, {"-1": 5, "-1.2": 1, "-0": 1}),
        (None, {"": 5}),
    ],
    ids=["another size", "decreasing times", "one source"],
)
def test_a_change_of_size_or_a_decreasing_time_starts_another_file(tmp_path, last, expected):
    """For interleaved sources."""
    sink = AnnotatedVideos(tmp_path, 1 if last is None else 2)
    for number in range(5):
        sink.write(labelled_frame(number, source=int(last is not None), size=(64, 64)))
    if last is not None:
        sink.write(labelled_frame(5, source=1, **last))
        sink.write(labelled_frame(0, size=(64, 64)))
    sink.close()
    sink.close()
    lengths = {name: len(read(tmp_path / name)[1]) for name in sink.outputs}
    assert lengths == {f"annotated{part}.mp4": length for part, length in expected.items()}


def test_a_browser_shows_the_right_frames_in_the_right_colors(page, tmp_path):
    colors = [(200, 40, 40), (40, 180, 60), (50, 60, 200), (210, 200, 50)]
    with VideoFile(tmp_path / "annotated.mp4", Fraction(2)) as video:
        for k in range(40):
            video.write(np.full((181, 321, 3), colors[k // 10], np.uint8), k / 2)
    html = "<body style='margin: 0'><video src='annotated.mp4' muted></video>"
    (tmp_path / "play.html").write_text(f"<!doctype html>{html}")
    page.show(tmp_path / "play.html", width=400)
    assert page.loaded_video() == [None, 322, 182, 20]
    for seconds in (12.2, 3.2, 17.2):
        assert page.evaluate(SHOWN.format(seconds)) == seconds // 0.5 / 2
        color = pytest.approx(colors[int(seconds // 5)], abs=12)
        # A busy browser displays the frame some screenshots after it reports it.
        pixels = [page.picture().convert("RGB").getpixel((160, 90))]
        while pixels[-1] != color and len(pixels) < 100:
            pixels.append(page.picture().convert("RGB").getpixel((160, 90)))
        assert pixels[-1] == color
