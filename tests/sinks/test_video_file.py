"""The annotated video, finished whatever happens."""

import signal
import struct
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from headrace.errors import BackendError, ConfigError
from headrace.sinks.video_file import VideoFile
from sinks.full_disk import disk_full_after, noise

RATE = Fraction(25)


def flat(colour: object, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    return np.full((*size, 3), colour, np.uint8)


def write(
    path: Path,
    frames: Iterable[np.ndarray],
    *,
    then: Exception | None = None,
    is_endless: bool = False,
) -> None:
    """Write frames, 25 a second; raise `then` before the file is closed."""
    with VideoFile(path, RATE, is_endless=is_endless) as video:
        for k, frame in enumerate(frames):
            video.write(frame, k / 25)
        if then is not None:
            raise then


def read(path: Path) -> tuple[av.VideoStream, list[av.VideoFrame]]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream, list(container.decode(stream))


def boxes(path: Path) -> list[str]:
    """Return the kinds of the boxes an MP4 is made of, in order."""
    content, at, kinds = path.read_bytes(), 0, []
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        kinds.append(kind.decode())
        at += length
    return kinds


@pytest.mark.parametrize("size", [(48, 64), (47, 63), (1, 1)])
def test_frames_come_back_with_their_times(tmp_path, size):
    times = [0.0, 0.04, 0.5, 0.54]
    with VideoFile(tmp_path / "out.mp4", RATE) as video:
        for k, seconds in enumerate(times):
            video.write(flat(60 * k, size), seconds)
    stream, frames = read(tmp_path / "out.mp4")
    assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    assert [f.time for f in frames] == pytest.approx(times)
    assert [f.to_ndarray(format="rgb24").mean() for f in frames] == pytest.approx(
        [0, 60, 120, 180], abs=4
    )
    assert (frames[0].height, frames[0].width) == tuple(n + n % 2 for n in size)


def test_colours_are_kept_and_tagged_so_that_players_agree(tmp_path):
    colours = [(200, 30, 60), (20, 180, 90), (30, 60, 220), (240, 240, 20)]
    write(tmp_path / "out.mp4", map(flat, colours))
    stream, frames = read(tmp_path / "out.mp4")
    found = [frame.to_ndarray(format="rgb24").mean(axis=(0, 1)) for frame in frames]
    assert np.allclose(found, colours, atol=6)
    context = stream.codec_context
    assert (context.colorspace, context.color_primaries, context.color_trc) == (1, 1, 1)
    assert context.color_range == 1


def test_an_odd_row_and_column_are_repeated(tmp_path):
    frame = flat(0, (33, 47))
    frame[-1], frame[:, -1] = 255, 255
    write(tmp_path / "out.mp4", [frame])
    [found] = read(tmp_path / "out.mp4")[1]
    picture = found.to_ndarray(format="rgb24")
    assert picture.shape == (34, 48, 3)
    assert picture[-2:].mean() > 230 < picture[:, -2:].mean()


def test_the_index_stands_in_front_so_that_browsers_play_at_once(tmp_path):
    write(tmp_path / "out.mp4", [flat(0)])
    kinds = boxes(tmp_path / "out.mp4")
    assert kinds.index("moov") < kinds.index("mdat")


def test_without_room_to_move_the_index_it_stays_behind(tmp_path):
    (tmp_path / ".out.mp4.partial").mkdir()  # in the way of the second file
    write(tmp_path / "out.mp4", noise(3))
    kinds = boxes(tmp_path / "out.mp4")
    assert kinds.index("moov") > kinds.index("mdat")
    assert len(read(tmp_path / "out.mp4")[1]) == 3


def test_times_that_do_not_advance_are_pushed_on(tmp_path):
    with VideoFile(tmp_path / "out.mp4", RATE) as video:
        for _ in range(3):
            video.write(flat(0), 1.0)
    assert len(read(tmp_path / "out.mp4")[1]) == 3


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 5000), Fraction(90_000)])
def test_any_frame_rate_will_do(tmp_path, rate):
    with VideoFile(tmp_path / "out.mp4", rate) as video:
        for k in range(3):
            video.write(flat(0), k * 0.5)
    assert [f.time for f in read(tmp_path / "out.mp4")[1]] == pytest.approx([0, 0.5, 1.0])


def test_a_file_that_lies_there_is_replaced(tmp_path):
    (tmp_path / "out.mp4").write_bytes(b"older" * 10_000)
    write(tmp_path / "out.mp4", [flat(0)])
    assert len(read(tmp_path / "out.mp4")[1]) == 1
    assert b"older" not in (tmp_path / "out.mp4").read_bytes()


def test_without_a_frame_no_file_is_left(tmp_path):
    (tmp_path / "out.mp4").write_text("of an older run")
    write(tmp_path / "out.mp4", [])
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_plays_when_something_else_fails(tmp_path):
    with pytest.raises(RuntimeError, match="something else"):
        write(tmp_path / "out.mp4", [flat(0)] * 3, then=RuntimeError("something else"))
    assert len(read(tmp_path / "out.mp4")[1]) == 3


def test_closing_again_is_harmless_and_writing_afterwards_an_error(tmp_path):
    video = VideoFile(tmp_path / "out.mp4", RATE)
    video.write(flat(0), 0.0)
    video.close()
    video.close()
    with pytest.raises(ConfigError, match=r"cannot write a frame to .*out\.mp4: it is closed"):
        video.write(flat(0), 0.1)
    assert len(read(tmp_path / "out.mp4")[1]) == 1


@pytest.mark.parametrize("name", ["nowhere/out.mp4", ""])
def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path, name):
    with pytest.raises(ConfigError, match=r"cannot write .*; give another folder with --out"):
        VideoFile(tmp_path / name, RATE)


@pytest.mark.parametrize("num_bytes", [0, 60_000])
def test_a_disk_that_runs_full_is_an_error_and_leaves_no_file_that_does_not_play(
    tmp_path, num_bytes
):
    words = r"cannot write .*out\.mp4: file too large; nothing of it is kept; give"
    full = pytest.raises(ConfigError, match=words)
    with disk_full_after(num_bytes), full:
        write(tmp_path / "out.mp4", noise(24))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_endless", [True, False])
def test_a_disk_that_runs_full_leaves_what_plays(tmp_path, is_endless):
    path = tmp_path / "out.mp4"
    words = r"cannot write .*out\.mp4: file too large; what was written before plays; give"
    with disk_full_after(5_000_000), pytest.raises(ConfigError, match=words):
        write(path, noise(200), is_endless=is_endless)
    assert [each.name for each in tmp_path.iterdir()] == ["out.mp4"]
    _, frames = read(path)
    assert len(frames) > 60
    assert [f.time for f in frames] == pytest.approx([k / 25 for k in range(len(frames))])


def test_a_disk_that_is_full_from_the_start_leaves_no_recording(tmp_path):
    with disk_full_after(0), pytest.raises(ConfigError):
        write(tmp_path / "out.mp4", noise(70), is_endless=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("most", [256, 1], ids=["noise", "black"])
def test_a_recording_plays_after_a_power_cut(tmp_path, most):
    """The process is killed in the middle: nothing is closed. What is black takes few bytes."""
    path = tmp_path / "out.mp4"
    program = (
        "import os, sys; from fractions import Fraction; from pathlib import Path; "
        "import numpy as np; from headrace.sinks.video_file import VideoFile\n"
        "video = VideoFile(Path(sys.argv[1]), Fraction(25), is_endless=True)\n"
        "source = np.random.default_rng(0)\n"
        "for k in range(200):\n"
        "    video.write(source.integers(0, int(sys.argv[2]), (240, 320, 3), np.uint8), k / 25)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, path, str(most)], check=False)
    assert done.returncode == -signal.SIGKILL
    times = []
    with av.open(str(path)) as container, suppress(av.error.InvalidDataError):
        for frame in container.decode(video=0):
            times.append(frame.time)
    assert len(times) > 60
    assert times == pytest.approx([k / 25 for k in range(len(times))])


def test_a_recording_that_is_closed_is_a_plain_file(tmp_path):
    write(tmp_path / "out.mp4", noise(130), is_endless=True)
    assert boxes(tmp_path / "out.mp4")[-2:] == ["mdat", "moov"]
    times = [frame.time for frame in read(tmp_path / "out.mp4")[1]]
    assert times == pytest.approx([k / 25 for k in range(130)])


def test_a_failure_while_closing_does_not_hide_the_first(tmp_path):
    with disk_full_after(0), pytest.raises(RuntimeError, match="the first"):
        write(tmp_path / "out.mp4", [flat(0)], then=RuntimeError("the first"))
    assert list(tmp_path.iterdir()) == []


def test_frames_no_encoder_takes_are_refused_with_their_size(tmp_path):
    with pytest.raises(BackendError, match=r"cannot encode frames of 2x16386 .* with libx264"):
        write(tmp_path / "out.mp4", [flat(0, (2, 16_386))])
    assert list(tmp_path.iterdir()) == []
