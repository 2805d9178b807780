"""The command over a folder, processes that hang or crash, and the table."""

import importlib.util
from dataclasses import replace
from functools import partial

import pytest

from benchmark_fakes import FINE, conformed
from benchmarks.command_line import call
from benchmarks.conformance import __main__ as conformance
from benchmarks.conformance.files import judge_files
from benchmarks.conformance.process import Ended, Request, answers_of, ask_worker
from benchmarks.conformance.verdict import ConformanceResult, Plan, Verdict
from conformance_fakes import write_numbers
from headrace.testing.damage import damage_packets

MODULES = {"torchcodec": "torchcodec", "decord": "decord", "opencv": "cv2"}


def run(*words, ask=ask_worker):
    """Return the exit status of the command."""
    return call(partial(conformance.main, ask=ask), "", words)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a clean clip, a damaged one and a text."""
    under = tmp_path / "clips" / "deep"
    under.mkdir(parents=True)
    whole = write_numbers(under)
    damage_packets(whole, under / "bad.mp4", ordinals=[6])
    (under / "read.me").write_text("no video\n" * 50)
    return under.parent


def test_a_folder_is_read_printed_and_kept(folder, tmp_path, capsys):
    kept = tmp_path / "kept.json"
    words = ["--json", kept, "--alone", "--ways", "seek", "order", "--size", "32", "48"]
    status = run(str(folder), *map(str, words))
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
def test_a_clean_clip_is_right_by_every_library(library, tmp_path):
    if importlib.util.find_spec(MODULES[library]) is None:
        pytest.skip(f"{library} is not here; `make bench-setup` installs it")
    path = write_numbers(tmp_path)
    plan = Plan(ways=(), libraries=[library], limit_seconds=600)
    [(row, versions)] = judge_files([("a.mp4", path)], plan)
    [verdict] = row.verdicts
    assert (verdict.party, verdict.kind, verdict.right) == (library, "right", 6)
    assert versions[library]


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(SystemExit, match="name a folder"):
        run()
    with pytest.raises(SystemExit, match="is no file and no folder"):
        run(str(tmp_path / "gone"))


@pytest.mark.parametrize("words", [["--size", "64"], ["--ways", "magic"], ["--libs", "ffms"]])
def test_what_is_no_choice_is_refused(words, tmp_path):
    with pytest.raises(SystemExit, match="2"):
        run(str(tmp_path), *words)


def test_an_interrupt_ends_it_and_keeps_what_there_is(folder, tmp_path, capsys):
    def ask(request):
        if request.asked["path"].endswith("numbers.mp4"):
            raise KeyboardInterrupt
        return ask_worker(request)

    kept = tmp_path / "kept.json"
    words = [str(folder), "--json", str(kept), "--alone", "--ways", "seek"]
    assert run(*words, ask=ask) == 130
    assert "interrupted after 1 of 3 files" in capsys.readouterr().err
    assert [row.name for row in ConformanceResult.load(kept).rows] == ["clips/deep/bad.mp4"]


PLAN = Plan(ways=("seek", "plan", "clip"), libraries=("decord",), limit_seconds=20)


def row_of(path, plan=PLAN, work="tests.benchmarks.conformance.stand_in:answer"):
    path.write_bytes(b"1234")
    ask = lambda request: ask_worker(replace(request, work=work))  # noqa: E731
    [(row, versions)] = judge_files([(f"folder/{path.name}", path)], plan, ask)
    assert all(about == {"fake": "True"} for about in versions.values())
    return row


def test_each_way_of_each_party_gives_its_verdict(tmp_path):
    row = row_of(tmp_path / "fine.mp4")
    assert (row.name, row.bytes, row.state) == ("folder/fine.mp4", 4, "read")
    assert (row.codec, row.size, row.frames, row.lines) == ("h264", (4, 6), 3, ("mmco",))
    ways = [("headrace", way) for way in PLAN.ways] + [("decord", "seek")]
    assert [(each.party, each.way) for each in row.verdicts] == ways
    assert {each.kind for each in row.verdicts} == {"right"}


@pytest.mark.parametrize(
    ("what", "reason"),
    [("crash", "ended by SIGSEGV"), ("traceback", "RuntimeError: no such codec")],
)
def test_a_way_that_ends_its_process_is_named_and_the_others_are_asked_anew(what, reason, tmp_path):
    row = row_of(tmp_path / f"{what}-plan.mp4")
    kinds = {each.way: each.kind for each in row.of("headrace")}
    assert kinds == {"seek": "right", "plan": what, "clip": "right"}
    [bad] = [each for each in row.verdicts if each.kind == what]
    assert bad.reason.startswith(reason)
    assert str(tmp_path) not in row.model_dump_json()


def test_a_process_that_hangs_is_killed_when_its_time_is_over(tmp_path):
    row = row_of(tmp_path / "hang-clip.mp4", replace(PLAN, libraries=(), limit_seconds=5))
    assert [each.kind for each in row.verdicts] == ["right", "right", "hang"]
    # Where it hung is named only where it wrote that before it was killed.
    assert row.verdicts[2].reason.split(" | ")[0] == "no answer within 5 seconds"


def test_a_process_that_crashes_when_all_is_answered_is_named():
    request = Request(work="", items=["seek"], asked={}, limit_seconds=1)
    ended = Ended("crash", "ended by SIGSEGV", [{"right": 1}])
    found = list(answers_of(request, lambda _: ended))
    assert found == [("seek", {"right": 1}), ("seek", ended)]


def test_where_the_plain_decode_crashes_nothing_is_held_against_it(tmp_path):
    row = row_of(tmp_path / "crash-plain decode.mp4")
    assert (row.state, row.verdicts) == ("crash", ())
    assert row.reason.startswith(
        'ended by SIGSEGV | File "tests/benchmarks/conformance/stand_in.py"'
    )


def test_what_is_no_video_is_only_shown_to_headrace(tmp_path):
    row = row_of(tmp_path / "notes.txt")
    assert (row.state, row.reason) == ("no video", "notes.txt is a text")
    assert [(each.party, each.way) for each in row.verdicts] == [("headrace", "open")]


def test_a_worker_that_cannot_start_is_asked_once_for_each_way(tmp_path):
    row = row_of(tmp_path / "a.mp4", work="tests.no_such:work")
    assert (row.state, "No module named" in row.reason) == ("failed", True)


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
def test_a_file_is_counted_by_the_worst_that_happened(verdict, kind):
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
def test_headrace_alone_must_do_nothing_wrong(party, verdict, is_met):
    found = Verdict(party=party, way="seek", **verdict)
    assert conformed(FINE.model_copy(update={"verdicts": (found,)})).is_met is is_met


def test_a_record_is_read_back(tmp_path):
    kept = conformed()
    kept.save(tmp_path / "kept.json")
    assert ConformanceResult.load(tmp_path / "kept.json") == kept
