"""The command on a folder, processes that hang or crash, and verdicts."""

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
    """Return a folder with a clean clip, a damaged clip and a text."""
    under = tmp_path / "clips" / "deep"
    under.mkdir(parents=True)
    whole = write_numbers(under)
    damage_packets(whole, under / "bad.mp4", ordinals=[6])
    (under / "read.me").write_text("no video\n" * 50)
    return under.parent


def test_a_folder_is_read_printed_and_saved(folder, tmp_path, capsys):
    out = tmp_path / "out.json"
    words = ["--json", out, "--alone", "--ways", "seek", "order", "--size", "32", "48"]
    status = run(str(folder), *map(str, words))
    result = ConformanceResult.load(out)
    assert [(row.name, row.state, row.frames) for row in result.rows] == [
        ("clips/deep/bad.mp4", "read", result.rows[0].frames),
        ("clips/deep/numbers.mp4", "read", 24),
        ("clips/deep/read.me", "no video", 0),
    ]
    assert result.rows[0].complaints
    assert [verdict.kind for verdict in result.rows[1].verdicts] == ["right", "right"]
    assert result.provenance.configuration["size"] == "32,48"
    assert result.versions["headrace"]["av"]
    assert str(tmp_path) not in out.read_text()
    assert status == (0 if result.is_met else 1) == 0
    assert capsys.readouterr().out.startswith("3 files: 2 compared with a plain linear decode")


@pytest.mark.parametrize("library", MODULES)
def test_a_clean_clip_is_right_by_every_library(library, tmp_path):
    if importlib.util.find_spec(MODULES[library]) is None:
        pytest.skip(f"{library} is not installed: make bench-setup")
    path = write_numbers(tmp_path)
    plan = Plan(ways=(), libraries=[library], limit_seconds=600)
    [(row, versions)] = judge_files([("a.mp4", path)], plan)
    [verdict] = row.verdicts
    assert (verdict.party, verdict.kind, verdict.right) == (library, "right", 6)
    assert versions[library]


def test_missing_files_are_errors(tmp_path):
    with pytest.raises(SystemExit, match="name files or folders"):
        run()
    with pytest.raises(SystemExit, match="is neither a file nor a folder"):
        run(str(tmp_path / "gone"))


@pytest.mark.parametrize("words", [["--size", "64"], ["--ways", "magic"], ["--libs", "ffms"]])
def test_invalid_options_are_refused(words, tmp_path):
    with pytest.raises(SystemExit, match="2"):
        run(str(tmp_path), *words)


def test_an_interrupted_run_saves_its_rows(folder, tmp_path, capsys):
    def ask(request):
        if request.options["path"].endswith("numbers.mp4"):
            raise KeyboardInterrupt
        return ask_worker(request)

    out = tmp_path / "out.json"
    words = [str(folder), "--json", str(out), "--alone", "--ways", "seek"]
    assert run(*words, ask=ask) == 130
    assert "interrupted after 1 of 3 files" in capsys.readouterr().err
    assert [row.name for row in ConformanceResult.load(out).rows] == ["clips/deep/bad.mp4"]


PLAN = Plan(ways=("seek", "plan", "clip"), libraries=("decord",), limit_seconds=20)


def row_of(path, plan=PLAN, work="tests.benchmarks.conformance.stand_in:answer"):
    path.write_bytes(b"1234")
    ask = lambda request: ask_worker(replace(request, work=work))  # noqa: E731
    [(row, versions)] = judge_files([(f"folder/{path.name}", path)], plan, ask)
    assert all(packages == {"fake": "True"} for packages in versions.values())
    return row


def test_each_variant_of_each_party_has_a_verdict(tmp_path):
    row = row_of(tmp_path / "fine.mp4")
    assert (row.name, row.bytes, row.state) == ("folder/fine.mp4", 4, "read")
    assert (row.codec, row.size, row.frames, row.lines) == ("h264", (4, 6), 3, ("mmco",))
    variants = [("headrace", way) for way in PLAN.ways] + [("decord", "seek")]
    assert [(verdict.party, verdict.way) for verdict in row.verdicts] == variants
    assert {verdict.kind for verdict in row.verdicts} == {"right"}


@pytest.mark.parametrize(
    ("event", "reason"),
    [("crash", "killed by SIGSEGV"), ("traceback", "RuntimeError: no such codec")],
)
def test_a_variant_that_ends_its_process_is_a_fault_and_the_others_run(event, reason, tmp_path):
    row = row_of(tmp_path / f"{event}-plan.mp4")
    kinds = {verdict.way: verdict.kind for verdict in row.of("headrace")}
    assert kinds == {"seek": "right", "plan": event, "clip": "right"}
    [fault] = [verdict for verdict in row.verdicts if verdict.kind == event]
    assert fault.reason.startswith(reason)
    assert str(tmp_path) not in row.model_dump_json()


def test_a_process_that_hangs_is_killed_at_its_limit(tmp_path):
    row = row_of(tmp_path / "hang-clip.mp4", replace(PLAN, libraries=(), limit_seconds=5))
    assert [verdict.kind for verdict in row.verdicts] == ["right", "right", "hang"]
    # The place of the hang follows if the process wrote it before it was killed.
    assert row.verdicts[2].reason.split(" | ")[0] == "no answer within 5 seconds"


def test_a_crash_after_the_last_answer_is_reported():
    request = Request(work="", items=["seek"], options={}, limit_seconds=1)
    ended = Ended("crash", "killed by SIGSEGV", [{"right": 1}])
    answers = list(answers_of(request, lambda _: ended))
    assert answers == [("seek", {"right": 1}), ("seek", ended)]


def test_nothing_is_compared_if_the_plain_decode_crashes(tmp_path):
    row = row_of(tmp_path / "crash-plain decode.mp4")
    assert (row.state, row.verdicts) == ("crash", ())
    assert row.reason.startswith(
        'killed by SIGSEGV | File "tests/benchmarks/conformance/stand_in.py"'
    )


def test_only_headrace_opens_a_file_without_video(tmp_path):
    row = row_of(tmp_path / "notes.txt")
    assert (row.state, row.reason) == ("no video", "notes.txt is a text")
    assert [(verdict.party, verdict.way) for verdict in row.verdicts] == [("headrace", "open")]


def test_a_worker_that_cannot_start_is_a_failure(tmp_path):
    row = row_of(tmp_path / "a.mp4", work="tests.no_such:work")
    assert (row.state, "No module named" in row.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("outcomes", "kind"),
    [
        ({"right": 3}, "right"),
        ({"right": 3, "refused_with": 1}, "refused with complaint"),
        ({"refused_with": 1, "refused_without": 1}, "refused without"),
        ({"refused_without": 1, "wrong": 1}, "wrong"),
        ({"wrong": 1, "ending": "traceback"}, "traceback"),
        ({"right": 1, "ending": "hang"}, "hang"),
    ],
)
def test_the_verdict_is_the_worst_outcome(outcomes, kind):
    assert Verdict(party="headrace", way="seek", **outcomes).kind == kind


@pytest.mark.parametrize(
    ("party", "outcomes", "is_met"),
    [
        ("headrace", {"right": 3}, True),
        ("headrace", {"refused_with": 3}, True),
        ("headrace", {"refused_without": 1}, False),
        ("headrace", {"wrong": 1}, False),
        ("headrace", {"ending": "crash"}, False),
        ("decord", {"wrong": 1}, True),
    ],
)
def test_only_faults_of_headrace_fail_the_run(party, outcomes, is_met):
    verdicts = (Verdict(party=party, way="seek", **outcomes),)
    assert conformed(FINE.model_copy(update={"verdicts": verdicts})).is_met is is_met


def test_a_saved_result_is_loaded(tmp_path):
    result = conformed()
    result.save(tmp_path / "out.json")
    assert ConformanceResult.load(tmp_path / "out.json") == result
