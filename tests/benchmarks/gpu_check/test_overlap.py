"""What a trace shows of copies beside kernels is counted right; the loop is run on the CPU."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gpu_check import overlap
from benchmarks.gpu_check.overlap import overlap_in
from headrace.testing.synth import SynthClip, write_clip


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
        words = ["overlap", str(tmp_path), "--batches", "2", "--out", str(path), *options]
        monkeypatch.setattr("sys.argv", words)
        overlap.main()
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
