"""Tests of benchmarks/conformance/table.py and verdict.py: the page, and what is counted."""

import pytest

from benchmark_fakes import origin
from benchmarks.conformance.table import render
from benchmarks.conformance.verdict import ConformanceResult, FileRow, Verdict, summarise

FINE = FileRow(
    name="a/fine.mp4",
    bytes=9,
    state="read",
    container="mov,mp4",
    codec="h264",
    frames=40,
    verdicts=(
        Verdict(party="headrace", way="seek", right=6),
        Verdict(party="headrace", way="order", right=40),
        Verdict(party="decord", way="seek", right=6),
    ),
)
BAD = FileRow(
    name="a/bad.mpg",
    bytes=9,
    state="read",
    container="mpeg",
    codec="mpeg2video",
    frames=50,
    index_frames=51,
    complaints=2,
    lines=("mpeg2video: ac-tex damaged",),
    verdicts=(
        Verdict(
            party="headrace", way="seek", right=4, wrong=2, examples=("7 is frame 8", "9 differs")
        ),
        Verdict(party="headrace", way="order", right=3, ending="hang", reason="no answer"),
        Verdict(party="decord", way="seek", right=5, refused_with=1, reason="it gives no picture"),
    ),
)
TEXT = FileRow(
    name="a/b.txt",
    bytes=2,
    state="no video",
    reason="a text",
    verdicts=(Verdict(party="headrace", way="open", right=1),),
)
LOST = FileRow(name="a/x.mkv", bytes=2, state="crash", reason="ended by SIGSEGV")


PAGE = """\
4 files: 2 held against a plain linear decode (90 frames), 1 of them with complaints of FFmpeg's; \
1 no video
  a/b.txt: no video: a text
  a/x.mkv: the plain decode crashes: ended by SIGSEGV

headrace (headrace 0.1, av 18.1)
way    right  wrong  refused, FFmpeg complains  refused, it does not  tracebacks  hangs  crashes  \
frames  of these wrong  refused
seek       1      1                          0                     0           0      0        0  \
    12               2    0 + 0
order      1      0                          0                     0           0      1        0  \
    43               0    0 + 0
open       1      0                          0                     0           0      0        0  \
     1               0    0 + 0
not right:
  a/bad.mpg (mpeg mpeg2video, 50 frames, 51 in the index): seek: 2 wrong of 6 \
(7 is frame 8, 9 differs); order: hang — no answer \
[FFmpeg, at 2 packets: mpeg2video: ac-tex damaged]

decord
way   right  wrong  refused, FFmpeg complains  refused, it does not  tracebacks  hangs  crashes  \
frames  of these wrong  refused
seek      1      0                          1                     0           0      0        0  \
    12               0    1 + 0
refused where FFmpeg complains too:
  a/bad.mpg (mpeg mpeg2video, 50 frames): seek: 1 refused with complaint of 6 \
— it gives no picture [FFmpeg, at 2 packets: mpeg2video: ac-tex damaged]"""


def result_of(*rows: FileRow) -> ConformanceResult:
    return ConformanceResult(
        provenance=origin(),
        versions={"headrace": {"headrace": "0.1", "av": "18.1"}},
        summary=summarise(rows),
        rows=rows,
    )


def test_the_whole_page() -> None:
    assert render(result_of(FINE, BAD, TEXT, LOST)) == PAGE


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ({"right": 3}, "right"),
        ({"right": 3, "refused_with": 1}, "refused with complaint"),
        ({"refused_with": 1, "refused_without": 1}, "refused without"),
        ({"refused_without": 1, "wrong": 1}, "wrong"),
        ({"wrong": 1, "ending": "traceback"}, "traceback"),
        ({"right": 1, "ending": "hang"}, "hang"),
    ],
)
def test_a_file_is_counted_by_the_worst_that_happened(verdict: dict, kind: str) -> None:
    assert Verdict(party="headrace", way="seek", **verdict).kind == kind


@pytest.mark.parametrize(
    ("party", "verdict", "is_met"),
    [
        ("headrace", {"right": 3}, True),
        ("headrace", {"refused_with": 3}, True),
        ("headrace", {"refused_without": 1}, False),
        ("headrace", {"wrong": 1}, False),
        ("headrace", {"ending": "crash"}, False),
        ("decord", {"wrong": 1}, True),
    ],
)
def test_headrace_alone_must_do_nothing_wrong(party: str, verdict: dict, is_met: bool) -> None:
    found = Verdict(party=party, way="seek", **verdict)
    assert result_of(FINE.model_copy(update={"verdicts": (found,)})).is_met is is_met


def test_a_record_is_read_back(tmp_path) -> None:
    kept = result_of(FINE, BAD, TEXT, LOST)
    kept.save(tmp_path / "kept.json")
    assert ConformanceResult.load(tmp_path / "kept.json") == kept
