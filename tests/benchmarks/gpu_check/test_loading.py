"""Decoders are compared before they are timed; the overlap of copies with kernels is measured."""

import gzip
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.command_line import call
from benchmarks.gpu_check import loading, overlap
from benchmarks.gpu_check.overlap import overlap_in
from decode.doubles_of_gpu import Double, stands_in
from decode.pynvvideocodec_played import plays
from headrace import DecoderConfig
from headrace.testing.synth import SynthClip, write_clip

FEW = "--batch-size 4 --batches 3 --repeats 2 --seconds 0.1 --size 32 48".split()  # noqa: SIM905


@pytest.fixture
def timed(tmp_path, monkeypatch, capsys):
    """Return a function from options to the printed result for random frames of two videos."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(2):
        write_clip(tmp_path / f"{number}", SynthClip(num_frames=24, size=(64, 96), gop=6))

    def run(*options):
        call(loading.main, "", ["frames", str(tmp_path), *FEW, *options])
        return json.loads(capsys.readouterr().out)

    return run


def test_both_devices_together_are_timed_with_the_counters_of_each(timed, monkeypatch):
    stands_in(monkeypatch)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    result = timed("--gpu", "0", "--auto")
    assert [row[0] for row in result["rows"]] == ["CPU", "NVDEC", "auto"]
    assert {len(row) for row in result["rows"]} == {len(result["heads"])}
    assert result["said"].startswith("equal batches; NVDEC is ")
    assert "; last auto run: cpu: " in result["said"]
    assert "cuda:0: " in result["said"]


def test_without_a_gpu_it_is_rehearsed_on_the_cpu(timed):
    result = timed("--auto")
    assert [row[0] for row in result["rows"]] == ["CPU", "CPU again", "auto"]
    assert "; last auto run: cpu: " in result["said"]


def test_two_decoders_are_timed_by_default(timed):
    assert [row[0] for row in timed()["rows"]] == ["CPU", "CPU again"]
    both = {"CPU": DecoderConfig(), "NVDEC": DecoderConfig.on_gpu(1)}
    assert loading.entrants(1, with_auto=False) == both


def test_frames_left_on_the_device_are_timed(timed):
    assert [row[0] for row in timed("--kept")["rows"]] == ["CPU", "CPU again", "CPU again, kept"]
    decoders = loading.entrants(0, with_auto=True, with_kept=True)
    assert [*decoders] == ["CPU", "NVDEC", "NVDEC, kept", "auto"]
    assert decoders["NVDEC, kept"] == DecoderConfig(device="cuda:0", keeps_on_device=True)


def test_pynvvideocodec_is_timed(timed, monkeypatch):
    """Uses a fake of the library, which was not compared with a GPU."""
    rehearsed = ["CPU", "CPU again", "CPU for PyNvVideoCodec"]
    assert [row[0] for row in timed("--pynvvideocodec")["rows"]] == rehearsed
    decoders = loading.entrants(0, with_auto=False, with_kept=True, with_pynvvideocodec=True)
    names = ["CPU", "NVDEC", "PyNvVideoCodec", "NVDEC, kept", "PyNvVideoCodec, kept"]
    assert [*decoders] == names
    by_nvidia = DecoderConfig(backend="pynvvideocodec", device="cuda:0", keeps_on_device=True)
    assert decoders["PyNvVideoCodec, kept"] == by_nvidia
    plays(monkeypatch)
    monkeypatch.setattr(
        loading.DecoderConfig, "on_gpu", lambda _: replace(by_nvidia, keeps_on_device=False)
    )
    result = timed("--gpu", "0", "--pynvvideocodec")
    assert [row[0] for row in result["rows"]] == names[:3]
    assert re.search(r"PyNvVideoCodec is \d+\.\d+ times as fast as the CPU", result["said"])


class Paints(Double):
    """Decoder whose pixels differ from the CPU's."""

    def changed(self, frames):
        for number, pixels in frames:
            pixels[0] ^= 1
            yield number, pixels


def test_nothing_is_timed_if_batches_differ(timed, monkeypatch):
    stands_in(monkeypatch, Paints)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(SystemExit, match="batch 0 of NVDEC differs from the CPU's: nothing was"):
        timed("--gpu", "0", "--auto")


def copy(begin, end, name="Memcpy HtoD (Pinned -> Device)"):
    """Return the event of a copy, as PyTorch's profiler writes it."""
    return {"cat": "gpu_memcpy", "name": name, "ts": begin, "dur": end - begin}


def kernel(begin, end):
    """Return the event of a kernel."""
    return {"cat": "kernel", "name": "gemm", "ts": begin, "dur": end - begin}


def test_overlapping_kernels_count_once():
    events = [copy(0, 10), kernel(5, 20), kernel(6, 8), copy(18, 22), kernel(30, 40)]
    measured = overlap_in(events)
    assert (measured.copies, measured.copied_us, measured.beside_us) == (2, 14, 7)
    assert str(measured) == "2 copies to the GPU took 0.01 ms, 50% of it during kernels"


def test_copies_from_the_gpu_and_other_events_do_not_count():
    others = [{"ph": "M", "name": "x"}, copy(0, 9, "Memcpy DtoH (Device -> Pinned)"), kernel(0, 9)]
    measured = overlap_in(others)
    assert (measured.copies, measured.share) == (0, 0.0)
    assert str(measured) == "no copies to a GPU"


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=8)


@given(copies=SPANS, kernels=SPANS)
def test_the_overlap_equals_a_count_of_microseconds(copies, kernels):
    busy = {moment for begin, long in kernels for moment in range(begin, begin + long)}
    expected = sum(len(busy & {*range(begin, begin + long)}) for begin, long in copies)
    events = [copy(begin, begin + long) for begin, long in copies]
    events += [kernel(begin, begin + long) for begin, long in kernels]
    assert overlap_in(events).beside_us == expected


@pytest.fixture
def looped(tmp_path, monkeypatch, capsys):
    """Return a function from options to the printed result and the path of the trace."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_clip(tmp_path / "clip", SynthClip(num_frames=32, size=(64, 96), gop=8))

    def run(*options):
        path = tmp_path / "out" / "trace.json.gz"
        call(overlap.main, "", [str(tmp_path), "--batches", "2", "--out", str(path), *options])
        return json.loads(capsys.readouterr().out), path

    return run


def test_the_loop_is_rehearsed_on_the_cpu_and_writes_its_trace(looped):
    result, path = looped()
    assert result["said"] == "no copies to a GPU"
    with gzip.open(path) as file:
        assert any(event["name"] == "aten::mm" for event in json.load(file)["traceEvents"])


def test_copies_without_overlap_do_not_pass(looped, monkeypatch):
    apart = overlap_in([copy(0, 10), kernel(10, 20)])
    monkeypatch.setattr(overlap, "trace", lambda *_: apart)
    with pytest.raises(SystemExit, match="0% of it during kernels; at least 50% is required"):
        looped("--gpu", "0")
