"""What decodes is proved equal before it is timed, and both together stand beside each alone."""

import json
import re
from dataclasses import replace

import pytest

from benchmarks.gpu_check import loading
from decode.doubles_of_gpu import Double, stands_in
from decode.pynvvideocodec_played import plays
from headrace import Decoding
from headrace.testing.synth import SynthClip, write_clip

FEW = (
    "--batch-size",
    "4",
    "--batches",
    "3",
    "--repeats",
    "2",
    "--seconds",
    "0.1",
    "--size",
    "32",
    "48",
)


@pytest.fixture
def timed(tmp_path, monkeypatch, capsys):
    """Return a function: options -> what is printed of random frames of two videos."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(2):
        write_clip(tmp_path / f"{number}", SynthClip(num_frames=24, size=(64, 96), gop=6))

    def run(*options):
        monkeypatch.setattr("sys.argv", ["loading", "frames", str(tmp_path), *FEW, *options])
        loading.main()
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
    assert loading.entrants(1, with_auto=False) == {"CPU": Decoding(), "NVDEC": Decoding.on_gpu(1)}


def test_frames_that_stay_are_timed_beside_those_that_come_down(timed):
    assert [row[0] for row in timed("--kept")["rows"]] == ["CPU", "CPU again", "CPU again, kept"]
    there = loading.entrants(0, with_auto=True, with_kept=True)
    assert [*there] == ["CPU", "NVDEC", "NVDEC, kept", "auto"]
    assert there["NVDEC, kept"] == Decoding(device="cuda:0", keeps_on_device=True)


def test_pynvvideocodec_is_timed_beside_nvdec_both_ways(timed, monkeypatch):
    """By a double of it, which no GPU has confirmed."""
    rehearsed = ["CPU", "CPU again", "CPU for PyNvVideoCodec"]
    assert [row[0] for row in timed("--pynvvideocodec")["rows"]] == rehearsed
    there = loading.entrants(0, with_auto=False, with_kept=True, with_pynvvideocodec=True)
    names = ["CPU", "NVDEC", "PyNvVideoCodec", "NVDEC, kept", "PyNvVideoCodec, kept"]
    assert [*there] == names
    by_nvidia = Decoding(backend="pynvvideocodec", device="cuda:0", keeps_on_device=True)
    assert there["PyNvVideoCodec, kept"] == by_nvidia
    plays(monkeypatch)
    monkeypatch.setattr(
        loading.Decoding, "on_gpu", lambda _: replace(by_nvidia, keeps_on_device=False)
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
