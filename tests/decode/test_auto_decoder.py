"""Frames are those of the CPU whichever way jobs go: each once, in order, also where one fails."""

import random
from contextlib import closing

import numpy as np
import pytest

import headrace
from decode.doubles_of_gpu import GPU, Fails, PassesOver, stands_in
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.chooser import CPU, Chooser
from headrace.decode.decoding import Decoding
from headrace.decode.open import open_decoder, open_device_decoder
from headrace.decode.pixels import Stack
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, DecodeError
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

AUTO = Decoding(device="auto")
SHAPE = FrameShape(size=(32, 48))
FEW = DecodeJob((0, 1, 2, 3, 7), goes_on=False)


@pytest.fixture
def index(tmp_path):
    return StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["h264_b_frames"]))


class Sends(Chooser):
    """Sends each job to the GPU, as long as it can be."""

    def send(self, codec, megapixels, ways):
        return super().send(codec, megapixels, ways[-1:])


def expected_of(index, wanted, shape=SHAPE):
    with closing(open_decoder(index, shape)) as decoder:
        return [frame for _, frame in decoder.run(DecodeJob(wanted, goes_on=False))]


def is_right(index, job, found):
    """Whether each frame of the job came once, in order, and is the CPU's."""
    frames = expected_of(index, job.wanted)
    assert [number for number, _ in found] == [*job.wanted]
    return all(np.array_equal(a, b) for (_, a), b in zip(found, frames, strict=True))


def test_jobs_go_both_ways_and_frames_are_the_same(index, monkeypatch):
    stands_in(monkeypatch)
    chooser, chance = Chooser(cores=1), random.Random(5)
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        delivered = 0
        for _ in range(12):
            wanted = sorted(chance.sample(range(len(index)), 4))
            job = DecodeJob(tuple(wanted), goes_on=False)
            assert is_right(index, job, list(decoder.run(job)))
            delivered += 4
            decoder.rest()
        assert decoder.counters.frames_delivered == delivered
    told = chooser.decoded_by
    assert all(each.jobs for each in told.ways.values())
    assert sum(each.jobs for each in told.ways.values()) == 12
    assert sum(each.frames for each in told.ways.values()) == delivered
    assert (told.no_gpu, told.on_cpu) == (None, {})


def test_jobs_that_read_on_stay_where_the_first_went(index, monkeypatch):
    stands_in(monkeypatch)
    chooser = Chooser(cores=1)
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        for number in range(10):
            list(decoder.run(DecodeJob((number,))))
        assert decoder.counters.seeks == 0
    assert sorted(each.jobs for each in chooser.decoded_by.ways.values()) == [0, 10]


@pytest.mark.parametrize("into", ["memory of each", "an array", "a list", "a stack"])
@pytest.mark.parametrize("double", [Fails, PassesOver])
def test_what_the_gpu_does_not_do_the_cpu_does_and_nothing_comes_twice(
    index, monkeypatch, double, into
):
    stands_in(monkeypatch, double)
    chooser = Sends()
    memory = np.empty((len(FEW.wanted), 32, 48, 3), np.uint8)
    out = {"an array": memory, "a list": [*memory], "a stack": Stack(len(memory))}.get(into)
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        assert is_right(index, FEW, list(decoder.run(FEW, out)))
        if out is not None:
            found = out.frames if isinstance(out, Stack) else memory
            assert np.array_equal(found, expected_of(index, FEW.wanted))
        assert decoder.concealed == frozenset()
        decoder.rest()
        assert is_right(index, FEW, list(decoder.run(FEW)))
    told = chooser.decoded_by
    assert told.ways[CPU].jobs == 2
    assert told.ways[GPU].jobs == 0
    came = 2 if double is Fails else 3
    assert told.ways[GPU].frames == came
    assert told.ways[CPU].frames == 10 - came
    number = 2 if double is Fails else 3
    assert f"gave no frame {number}" in told.on_cpu[str(index.source)]
    assert "leave gpu out" not in str(told)


def test_a_gpu_that_fails_on_a_file_is_not_opened_for_it_again(index, monkeypatch):
    made = stands_in(monkeypatch, Fails)
    chooser = Sends()
    for _ in range(3):
        with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
            list(decoder.run(FEW))
    assert [each.gpu for each in made].count(0) == 1


def test_a_file_that_the_gpu_does_not_decode_goes_to_the_cpu_with_the_reason(tmp_path, monkeypatch):
    index = StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["odd_size_444"]))
    made = stands_in(monkeypatch)
    chooser = Sends()
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        assert is_right(index, FEW, list(decoder.run(FEW)))
    assert 0 not in [each.gpu for each in made]
    told = chooser.decoded_by
    assert "h264 in yuv444p" in told.on_cpu[str(index.source)]
    assert told.ways[GPU] == type(told.ways[GPU])()


def test_a_damaged_file_is_not_the_fault_of_the_gpu(tmp_path, monkeypatch):
    good = write_clip(tmp_path / "good", SynthClip(b_frames=2))
    bad = next(
        path
        for seed in range(40)
        for path in [
            damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[13, 15], seed=seed)
        ]
        if any(StreamIndex.scan(path, count_by="decode").problems)
    )
    stands_in(monkeypatch)
    everything = DecodeJob(tuple(range(48)))
    outcomes = []
    for decoding in (Decoding(), AUTO):
        index, chooser = StreamIndex.scan(bad), Sends()
        with closing(open_decoder(index, SHAPE, decoding, chooser=chooser)) as decoder:
            came = []
            with pytest.raises(DecodeError) as caught:
                came.extend(decoder.run(everything))
            shown = dict(decoder.run(DecodeJob(everything.wanted, conceals=True)))
            outcomes.append(([*caught.value.missing], sorted(decoder.concealed), [*shown]))
        assert len(came) + len(outcomes[-1][0]) == 48
    assert outcomes[0] == outcomes[1]
    assert chooser.decoded_by.on_cpu == {}


def test_who_leaves_early_leaves_nothing_under_way(index, monkeypatch):
    stands_in(monkeypatch)
    chooser = Sends()
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        with closing(decoder.run(FEW)) as frames:
            next(frames)
        decoder.rest()
        assert is_right(index, FEW, list(decoder.run(FEW)))
    assert chooser.decoded_by.ways[GPU].jobs == 1
    assert chooser.decoded_by.ways[GPU].frames == 6


@needs_no_gpu
def test_without_a_gpu_all_that_decodes_does_so_on_the_cpu(index):
    path = index.source.path
    expected = headrace.read_clip(path, num_frames=4, stride=1)
    assert np.array_equal(headrace.read_clip(path, num_frames=4, stride=1, decoding=AUTO), expected)
    with headrace.open(path, decoding=AUTO) as video:
        assert np.array_equal(video[:4], expected)
    [batch] = headrace.read_frames([path], decoding=AUTO, stride=100)
    assert np.array_equal(batch.frames, expected[:1])


def test_a_job_counts_from_its_keyframe_on_and_one_that_reads_on_to_the_end(index):
    class Notes(Chooser):
        asked = ()

        def send(self, codec, megapixels, ways):
            self.asked += ((codec, round(megapixels * 1e6)),)
            return super().send(codec, megapixels, ways)

    chooser, pixels = Notes(), index.info.height * index.info.width
    first, stop = index.gop_range(1)
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        for goes_on in (False, True):
            list(decoder.run(DecodeJob((stop - 2,), goes_on=goes_on)))
            decoder.rest()
    frames = stop - 1 - first, len(index) - first
    assert chooser.asked == tuple(("h264", each * pixels) for each in frames)


def test_tensors_are_made_in_one_place_whoever_decodes(index, monkeypatch):
    stands_in(monkeypatch)
    kept, auto = (Decoding(device=each, keeps_on_device=True) for each in ("cpu", "auto"))
    chooser = Chooser(cores=1)
    assert chooser.gpu == GPU
    monkeypatch.setattr("headrace.decode.chooser._gpu_or_cpu", lambda: "cpu")
    with (
        closing(open_device_decoder(index, SHAPE, kept)) as there,
        closing(open_device_decoder(index, SHAPE, auto, chooser=chooser)) as here,
    ):
        for first in range(0, 40, 4):
            job = DecodeJob((first, first + 2), goes_on=False)
            for (_, expected), (_, found) in zip(there.run(job), here.run(job), strict=True):
                assert bool((expected == found).all())
            here.rest()
    assert all(each.jobs for each in chooser.decoded_by.ways.values())


@needs_no_gpu
def test_without_a_gpu_tensors_are_made_on_the_cpu(index):
    auto = Decoding(device="auto", keeps_on_device=True)
    with closing(open_device_decoder(index, SHAPE, auto)) as decoder:
        assert {str(frame.device) for _, frame in decoder.run(FEW)} == {"cpu"}


def test_arrays_and_frames_that_stay_are_not_asked_for_at_once(index):
    with pytest.raises(BackendError, match="open_device_decoder gives them there"):
        open_decoder(index, SHAPE, Decoding(device="auto", keeps_on_device=True))


@needs_gpu
def test_frames_from_the_gpu_and_the_cpu_by_turns_are_the_same(index):
    chooser = Chooser(cores=1)
    with closing(open_decoder(index, SHAPE, AUTO, chooser=chooser)) as decoder:
        for first in range(20):
            job = DecodeJob((first, first + 3), goes_on=False)
            assert is_right(index, job, list(decoder.run(job)))
            decoder.rest()
    assert all(each.jobs for each in chooser.decoded_by.ways.values()), str(chooser.decoded_by)
