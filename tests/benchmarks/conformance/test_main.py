"""Tests of benchmarks/conformance/__main__.py: the command over a folder, with real processes."""

import importlib.util
from pathlib import Path

import pytest

from benchmarks.conformance import __main__ as conformance
from benchmarks.conformance.runner import Ended, Plan, ask_worker, conform
from benchmarks.conformance.verdict import ConformanceResult
from benchmarks.conformance.worker import Request
from conformance_fakes import write_numbers
from headrace.testing.damage import damage_packets

MODULES = {"torchcodec": "torchcodec", "decord": "decord", "opencv": "cv2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a clean clip, a damaged one and a text."""
    under = tmp_path / "clips" / "deep"
    under.mkdir(parents=True)
    whole = write_numbers(under)
    damage_packets(whole, under / "bad.mp4", ordinals=[6])
    (under / "read.me").write_text("no video\n" * 50)
    return under.parent


def test_a_folder_is_read_printed_and_kept(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    words = ["--json", str(kept), "--libs", "", "--ways", "seek,order", "--size", "32x48"]
    status = conformance.main([str(folder), *words])
    result = ConformanceResult.load(kept)
    assert [(row.name, row.state, row.frames) for row in result.rows] == [
        ("clips/deep/bad.mp4", "read", result.rows[0].frames),
        ("clips/deep/numbers.mp4", "read", 24),
        ("clips/deep/read.me", "no video", 0),
    ]
    assert result.rows[0].complaints
    assert [each.kind for each in result.rows[1].verdicts] == ["right", "right"]
    assert result.provenance.configuration["size"] == "32,48"
    assert result.versions["headrace"]["av"]
    assert str(tmp_path) not in kept.read_text()
    assert status == (0 if result.is_met else 1) == 0
    assert capsys.readouterr().out.startswith("3 files: 2 held against a plain linear decode")


@pytest.mark.parametrize("library", MODULES)
def test_a_clean_clip_is_right_by_every_library(library: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(MODULES[library]) is None:
        pytest.skip(f"{library} is not here; `make bench-setup` installs it")
    path = write_numbers(tmp_path)
    [(row, versions)] = conform([("a.mp4", path)], Plan(ways=(), libraries=[library]))
    [verdict] = row.verdicts
    assert (verdict.party, verdict.kind, verdict.right) == (library, "right", 6)
    assert versions[library]


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name a folder"):
        conformance.main([])
    with pytest.raises(SystemExit, match="is no file and no folder"):
        conformance.main([str(tmp_path / "gone")])


@pytest.mark.parametrize("words", [["--size", "64"], ["--ways", "magic"], ["--libs", "ffms"]])
def test_what_is_no_choice_is_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        conformance.main([str(tmp_path), *words])


def test_an_interrupt_ends_it_and_keeps_what_there_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(request: Request, module: str) -> Ended:
        if request.path.endswith("numbers.mp4"):
            raise KeyboardInterrupt
        return ask_worker(request, module)

    kept = tmp_path / "kept.json"
    words = [str(folder), "--json", str(kept), "--libs", "", "--ways", "seek"]
    assert conformance.main(words, ask) == 130
    assert "interrupted after 1 of 3 files" in capsys.readouterr().err
    assert [row.name for row in ConformanceResult.load(kept).rows] == ["clips/deep/bad.mp4"]
