"""Decoders: compared first, then timed; skipped decoders have a reason."""

import sys
from itertools import count

import numpy as np
import pytest

from bench.records import recorded
from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.bench import decode
from headrace.bench.decode import DECODE, DecodeConfig, DecodeRecord, MethodRecord, ranges_of
from headrace.errors import DecodeError
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.stream_index import StreamIndex

WAYS = ["PyAV", "torchcodec CPU", "torchcodec CUDA", "NVDEC", "PyNvVideoCodec", "decord"]


@pytest.fixture
def measured(measure, tmp_path, monkeypatch):
    """Return a function: kinds of clips and options -> the record; without PyNvVideoCodec."""
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", None)

    def run(*kinds, **options):
        paths = [str(write_clip(tmp_path / kind, KINDS[kind])) for kind in kinds]
        return measure(DECODE, videos=tuple(paths), **options)

    return run


@pytest.fixture
def no_decord(monkeypatch):
    monkeypatch.setattr(decode, "find_spec", lambda name: None)


def test_the_number_of_decoders_is_announced():
    config = DecodeConfig(videos=("a.mp4",), seconds=2, repeats=3)
    announcement = DECODE.announce(config)
    assert announcement.startswith(
        f"Up to {len(WAYS)} decoders, {3 * len(WAYS) + 1} repetitions of 2 s"
    )


@needs_torchcodec
@needs_no_gpu
@pytest.mark.parametrize("access", ["in-order", "random"])
def test_decoders_are_compared_and_timed_or_skipped_with_a_reason(measured, no_decord, access):
    record = measured("h264_b_frames", "vp9_hidden", access=access)
    assert [method.way for method in record.methods] == WAYS
    assert [method.status for method in record.methods] == [
        *(None, None, "no GPU", "no GPU", "not installed", "not installed")
    ]
    assert [turn.way for turn in record.turns] == ["PyAV", "torchcodec CPU"]
    assert all(turn.amount >= 1 for turn in record.turns)
    pyav, torchcodec, cuda, _, by_nvidia, decord = record.methods
    assert (pyav.compared, torchcodec.compared) == (8, 8)
    assert (torchcodec.mean_apart, torchcodec.most_apart) == (0, 0)
    assert "no NVIDIA GPU" in cuda.why_not
    assert "pip install decord" in decord.why_not
    assert "pip install 'headrace[pynvvideocodec]'" in by_nvidia.why_not
    assert (record.videos, record.size, record.codecs) == (2, (96, 128), ("h264", "vp9"))


def test_decord_is_timed_if_it_is_installed(measured):
    pytest.importorskip("decord", exc_type=ImportError)
    *_, decord = measured("h264_b_frames").methods
    assert (decord.is_ours, decord.status, decord.compared) == (False, None, 8)
    *_, decord = measured("vp8_hidden").methods
    assert decord.status == "refused"
    assert "it finds 54 frames of 48" in decord.why_not


@needs_torchcodec
def test_a_decoder_with_other_frames_is_not_timed(measured, no_decord, monkeypatch):
    right, calls = decode.last_frames, count()

    def wrong(reader, ranges):
        frames = right(reader, ranges)
        return [255 - frame for frame in frames] if next(calls) else frames

    monkeypatch.setattr(decode, "last_frames", wrong)
    record = measured("h264")
    assert record.methods[1].status == "differs"
    assert record.methods[1].why_not.startswith("8 of 8 frames differ from PyAV's")
    assert {turn.way for turn in record.turns} == {"PyAV"}


@needs_torchcodec
def test_a_decoder_that_refuses_a_file_is_reported(measured, no_decord):
    record = measured("h264", "ts")
    assert record.methods[1].status == "refused"
    assert "seeking is not exact in the container mpegts" in record.methods[1].why_not


def test_without_torchcodec_its_extra_is_named(measured, no_decord, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    torchcodec = measured("h264").methods[1]
    assert torchcodec.status == "not installed"
    assert "pip install 'headrace[torchcodec]'" in torchcodec.why_not


def test_a_damaged_video_fails_before_timing(measure, tmp_path):
    good = write_clip(tmp_path / "good", SynthClip())
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[1])
    with pytest.raises(DecodeError, match="the file is damaged there"):
        measure(DECODE, videos=(str(bad),))


def test_ranges_are_spread_over_the_videos_and_begin_at_keyframes(tmp_path):
    indexes = [
        StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind])) for kind in ("h264", "vp9")
    ]
    ranges = ranges_of(indexes, "in-order")
    assert {gop_range.video for gop_range in ranges} == {0, 1}
    assert all(indexes[item.video].is_keyframe[item.wanted[0]] for item in ranges)
    singles = ranges_of(indexes, "random")
    assert {len(item.wanted) for item in singles} == {1}
    assert len({(item.video, item.wanted) for item in singles}) == len(singles) == 24


def test_the_fastest_method_is_advised_and_every_method_has_a_row(check_pages):
    on_cpu = {"device": "CPU", "compared": 8}
    methods = (
        MethodRecord(way="PyAV", is_ours=True, **on_cpu),
        MethodRecord(way="torchcodec CPU", is_ours=True, mean_apart=0.25, most_apart=4, **on_cpu),
        MethodRecord(way="NVDEC", device="GPU", is_ours=True, status="no GPU", why_not="of none"),
        MethodRecord(way="decord", is_ours=False, **on_cpu),
    )
    read = {"videos": 1, "size": (720, 1280), "codecs": ("h264",), "access": "in-order"}
    seconds = {"PyAV": [1.0, 1.0], "torchcodec CPU": [0.5, 0.5], "decord": [0.25, 0.25]}
    on_gpu = MethodRecord(way="NVDEC", device="GPU", is_ours=True, compared=8)
    beside = {**read, "methods": (*methods[:2], on_gpu, methods[3]), "others": 0.3}
    cases = {
        "some were timed": recorded(seconds, DecodeRecord, methods=methods, **read),
        "other programs ran": recorded(seconds, DecodeRecord, methods=methods, others=0.3, **read),
        "the same beside a GPU": recorded({**seconds, "NVDEC": [0.2, 0.2]}, DecodeRecord, **beside),
    }
    check_pages(DECODE, cases)


@needs_torchcodec
@needs_gpu
def test_both_decoders_of_a_gpu_are_timed(measured):
    record = measured("h264")
    assert {"torchcodec CUDA", "NVDEC"} <= {turn.way for turn in record.turns}
    assert np.all([method.compared == 8 for method in record.methods[:4]])
