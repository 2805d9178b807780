"""What decodes is proved equal before it is timed; copies beside kernels are counted."""

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
    """Return a function: options -> what is printed of random frames of two videos."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(2):
        write_clip(tmp_path / f"{number}", SynthClip(num_frames=24, size=(64, 96), gop=6))

    def run(*options):
        call(loading.main, "", ["frames", str(tmp_path), *FEW, *options])
        return json.loads(capsys.readouterr().out)

    return run


def test_both_together_are_timed_beside_each_alone_and_say_what_each_did(timed, monkeypatch):
    stands_in(monkeypatch)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    found = timed("--gpu", "0", "--auto")
    assert [row[0] for row in found["rows"]] == ["CPU", "NVDEC", "auto"]
    assert {len(row) for row in found["rows"]} == {len(found["heads"])}
    assert found["said"].startswith("equal batches; NVDEC is ")
    assert "; auto at last by cpu: " in found["said"]
    assert "cuda:0: " in found["said"]


def test_without_a_gpu_it_is_rehearsed_on_the_cpu_and_says_why(timed):
    found = timed("--auto")
    assert [row[0] for row in found["rows"]] == ["CPU", "CPU again", "auto"]
    assert "; auto at last by cpu: " in found["said"]


def test_without_auto_there_are_two(timed):
    assert [row[0] for row in timed()["rows"]] == ["CPU", "CPU again"]
    both = {"CPU": DecoderConfig(), "NVDEC": DecoderConfig.on_gpu(1)}
    assert loading.entrants(1, with_auto=False) == both


def test_frames_that_stay_are_timed_beside_those_that_come_down(timed):
    assert [row[0] for row in timed("--kept")["rows"]] == ["CPU", "CPU again", "CPU again, kept"]
    there = loading.entrants(0, with_auto=True, with_kept=True)
    assert [*there] == ["CPU", "NVDEC", "NVDEC, kept", "auto"]
    assert there["NVDEC, kept"] == DecoderConfig(device="cuda:0", keeps_on_device=True)


def test_pynvvideocodec_is_timed_beside_nvdec_both_ways(timed, monkeypatch):
    """By a double of it, which no GPU has confirmed."""
    rehearsed = ["CPU", "CPU again", "CPU for PyNvVideoCodec"]
    assert [row[0] for row in timed("--pynvvideocodec")["rows"]] == rehearsed
    there = loading.entrants(0, with_auto=False, with_kept=True, with_pynvvideocodec=True)
    names = ["CPU", "NVDEC", "PyNvVideoCodec", "NVDEC, kept", "PyNvVideoCodec, kept"]
    assert [*there] == names
    by_nvidia = DecoderConfig(backend="pynvvideocodec", device="cuda:0", keeps_on_device=True)
    assert there["PyNvVideoCodec, kept"] == by_nvidia
    plays(monkeypatch)
    monkeypatch.setattr(
        loading.DecoderConfig, "on_gpu", lambda _: replace(by_nvidia, keeps_on_device=False)
    )
    found = timed("--gpu", "0", "--pynvvideocodec")
    assert [row[0] for row in found["rows"]] == names[:3]
    assert re.search(r"PyNvVideoCodec is \d+\.\d+ times as fast as the CPU", found["said"])


class Paints(Double):
    """Gives other pixels than the CPU."""

    def changed(self, frames):
        for number, pixels in frames:
            pixels[0] ^= 1
            yield number, pixels


def test_nothing_is_timed_where_batches_differ(timed, monkeypatch):
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


def test_the_time_of_copies_beside_kernels_is_counted_once():
    events = [copy(0, 10), kernel(5, 20), kernel(6, 8), copy(18, 22), kernel(30, 40)]
    found = overlap_in(events)
    assert (found.copies, found.copied_us, found.beside_us) == (2, 14, 7)
    assert str(found) == "2 copies to the GPU took 0.01 ms, 50% of it beside kernels"


def test_copies_the_other_way_and_what_else_a_trace_holds_do_not_count():
    others = [{"ph": "M", "name": "x"}, copy(0, 9, "Memcpy DtoH (Device -> Pinned)"), kernel(0, 9)]
    found = overlap_in(others)
    assert (found.copies, found.share) == (0, 0.0)
    assert str(found) == "nothing was copied to a GPU"


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=8)


@given(copies=SPANS, kernels=SPANS)
def test_it_is_what_counting_each_microsecond_gives(copies, kernels):
    busy = {moment for begin, long in kernels for moment in range(begin, begin + long)}
    expected = sum(len(busy & {*range(begin, begin + long)}) for begin, long in copies)
    events = [copy(begin, begin + long) for begin, long in copies]
    events += [kernel(begin, begin + long) for begin, long in kernels]
    assert overlap_in(events).beside_us == expected


@pytest.fixture
def looped(tmp_path, monkeypatch, capsys):
    """Return a function: options -> what is printed of the loop, and the folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_clip(tmp_path / "clip", SynthClip(num_frames=32, size=(64, 96), gop=8))

    def run(*options):
        path = tmp_path / "out" / "trace.json.gz"
        call(overlap.main, "", [str(tmp_path), "--batches", "2", "--out", str(path), *options])
        return json.loads(capsys.readouterr().out), path

    return run


def test_the_loop_is_rehearsed_on_the_cpu_and_leaves_its_trace(looped):
    found, path = looped()
    assert found["said"] == "nothing was copied to a GPU"
    with gzip.open(path) as file:
        assert any(event["name"] == "aten::mm" for event in json.load(file)["traceEvents"])


def test_copies_that_wait_for_the_work_do_not_pass(looped, monkeypatch):
    apart = overlap_in([copy(0, 10), kernel(10, 20)])
    monkeypatch.setattr(overlap, "trace", lambda *_: apart)
    with pytest.raises(SystemExit, match="0% of it beside kernels; at least 50% was expected"):
        looped("--gpu", "0")
