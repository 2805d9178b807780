"""The steps of the check, the flags of a run by pairs, and what steps print."""

import json
import re
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path

import pytest

from benchmarks.gpu_check import readings
from benchmarks.gpu_check import steps as check
from benchmarks.gpu_check.step import Ended, UnreadError
from benchmarks.gpu_check.steps import OF_A_GPU, OF_NVDEC, REFUSED, RUNS, Plan, steps_of
from benchmarks.worker import ROOT
from headrace.bench.registry import BENCHMARKS
from headrace.config_fields import option_fields
from headrace.profiling.trace import NAME, write_trace

FLAGS = {*chain(*RUNS, *REFUSED)}


@pytest.mark.parametrize("pair", [*combinations(sorted(FLAGS), 2)], ids="|".join)
def test_two_flags_meet_in_each_way_that_is_not_refused(pair):
    refused = {(True, True)} if {*pair} in map(set, REFUSED) else set()
    met = {tuple(flag in run for flag in pair) for run in RUNS}
    assert met == {*product((True, False), repeat=2)} - refused


def test_runs_are_few_and_the_plain_one_comes_first():
    assert len(FLAGS) == 7
    assert RUNS[0] == ()
    assert len(RUNS) == len({*RUNS}) <= 8


def test_the_files_of_tests_that_a_rehearsal_runs_are_there(tmp_path):
    steps = steps_of(Plan(out=tmp_path, is_rehearsal=True), {}, [])
    files = {Path(word) for step in steps for word in step.arguments if word.endswith(".py")}
    assert len(files) > 4
    assert [path for path in files if not (ROOT / path).is_file()] == []


def ended(stdout="", stderr=""):
    """Return a process that ended well."""
    return Ended([], 0, stdout, stderr)


def junit(path, cases):
    """Write the report of pytest on some cases."""
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


PASSED = "<testcase name='a'/>"
SKIPPED = "<testcase name='b'><skipped message='there is a GPU here'/></testcase>"


def test_tests_that_were_skipped_are_counted_by_their_reason(tmp_path):
    path = junit(tmp_path / "tests.xml", [PASSED, SKIPPED, SKIPPED])
    found = readings.tests(ended(), junit=path)
    assert found.said == "1 tests passed, 2 skipped"
    assert found.rows == (("there is a GPU here", "2"),)


def test_tests_of_which_none_ran_do_not_pass(tmp_path):
    with pytest.raises(UnreadError, match="of 1 tests none was run"):
        readings.tests(ended(), junit=junit(tmp_path / "tests.xml", [SKIPPED]))
    with pytest.raises(UnreadError, match="of 0 tests none was run"):
        readings.tests(ended(), junit=junit(tmp_path / "tests.xml", []))
    with pytest.raises(UnreadError, match="pytest left no report"):
        readings.tests(ended(), junit=tmp_path / "nothing.xml")


def test_a_refusal_is_one_line():
    found = readings.refusal(ended(stderr="headrace: leave out --enable-compile\n"))
    assert found.said == "refused, as it should be: leave out --enable-compile"
    for stderr in ("", "Traceback (most recent call last):\nheadrace: x\n", "Error: x\n"):
        with pytest.raises(UnreadError, match="does not say in a line"):
            readings.refusal(ended(stderr=stderr))


@pytest.mark.parametrize("printed", ["", "{", '{"version": 2}'])
def test_what_is_no_record_does_not_pass(printed, tmp_path):
    inference = partial(readings.inference, out=tmp_path, plain=None)
    for read in (partial(readings.bench, name="memory"), inference, readings.report):
        with pytest.raises((UnreadError, KeyError)):
            read(ended(printed))


def predictions(*confidences, first=0):
    """Return predictions of frames in order."""
    return [
        {"index": number, "pts": number, "confidence": confidence}
        for number, confidence in enumerate(confidences, first)
    ]


def test_predictions_are_held_against_the_plain_run(tmp_path):
    plain = predictions(0.5, 0.25)
    assert readings._apart(predictions(0.51, 0.25), plain) == pytest.approx(0.02)
    with pytest.raises(UnreadError, match=r"a confidence is 20.0% off run:plain's"):
        readings._apart(predictions(0.5, 0.3), plain)
    with pytest.raises(UnreadError, match="a confidence is inf% off"):
        readings._apart(predictions(0.5, float("nan")), plain)
    for others in (predictions(0.5), predictions(0.5, 0.25, first=1)):
        with pytest.raises(UnreadError, match="are of other frames"):
            readings._apart(others, plain)
    (tmp_path / "predictions.jsonl").write_text("\n".join(map(json.dumps, plain)))
    assert readings._predictions(tmp_path) == plain
    with pytest.raises(UnreadError, match="there are no predictions"):
        readings._predictions(tmp_path / "nowhere")


def test_a_trace_shows_copies_where_there_are_to_be_some(tmp_path, monkeypatch):
    monkeypatch.setattr(readings, "_session", lambda _: None)
    with pytest.raises(UnreadError, match="it left no trace: "):
        readings.traced(ended(), out=tmp_path, copies=False)
    times = {"ts": 0, "dur": 1500}
    events = [{"cat": "gpu_memcpy", "name": "Memcpy HtoD", **times}, {"cat": "kernel", **times}]
    write_trace(tmp_path / NAME, events)
    found = readings.traced(ended(), out=tmp_path, copies=True)
    assert found.said == "1 copies to the GPU took 1.50 ms, 100% of it beside kernels"
    with pytest.raises(UnreadError, match="in its trace 1 copies to the GPU took"):
        readings.traced(ended(), out=tmp_path, copies=False)
    write_trace(tmp_path / NAME, events[1:])
    with pytest.raises(UnreadError, match="in its trace nothing was copied to a GPU"):
        readings.traced(ended(), out=tmp_path, copies=True)


def steps(*, is_rehearsal=False):
    """Return all of them."""
    return steps_of(Plan(out=Path("/tmp/out"), is_rehearsal=is_rehearsal), {}, [])


def test_a_rehearsal_has_the_same_steps_and_needs_no_gpu():
    names = [step.name for step in steps()]
    assert [step.name for step in steps(is_rehearsal=True)] == names
    assert len(set(names)) == len(names)
    assert tuple(names[:2]) == check.ALWAYS
    assert {need for step in steps(is_rehearsal=True) for need in step.needs} == set()


def test_pynvvideocodec_is_measured_where_it_is_installed():
    [step] = [step for step in steps() if step.name == "pynvvideocodec:frames"]
    assert step.needs == ("a GPU", "NVDEC", "PyNvVideoCodec")


def test_every_test_that_wants_a_gpu_is_asked_for():
    words = OF_A_GPU.split(" or ")
    wanting = [
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(
            r"^@needs_gpu\n(?:[@ )].*\n)*def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert len(wanting) > 5
    assert [name for name in wanting if not any(word in name for word in words)] == []


def test_the_tests_are_asked_for_in_two_halves_with_nothing_between():
    given = [step.arguments for step in steps() if step.group == "tests"]
    words = [arguments[arguments.index("-k") + 1] for arguments in given]
    assert words == [f"({OF_A_GPU}) and not ({OF_NVDEC})", f"({OF_A_GPU}) and ({OF_NVDEC})"]


@pytest.mark.parametrize("is_rehearsal", [True, False])
def test_experiments_are_asked_with_options_they_have(is_rehearsal):
    known = {each.name: each.config for each in BENCHMARKS}
    for step in steps(is_rehearsal=is_rehearsal):
        if step.arguments[:3] != ("-m", "headrace", "bench") or step.arguments[3] not in known:
            continue
        fields = option_fields(known[step.arguments[3]])
        flags = {f"--{field.name.replace('_', '-')}" for field in fields} | {"--out", "--json"}
        given = {word for word in step.arguments if word.startswith("--")}
        assert given <= flags, step.name


def test_runs_that_decode_on_the_gpu_need_nvdec_and_others_do_not():
    runs = [step for step in steps() if step.group == "run"]
    decoding = [step for step in runs if "--decode" in step.arguments and not step.exit_status]
    assert len(decoding) >= 2
    assert {step.needs for step in decoding} == {("a GPU", "NVDEC")}
    assert [step.name for step in runs if "NVDEC" in step.needs and step not in decoding] == []
    for step in steps(is_rehearsal=True):
        assert "--decode" not in step.arguments or step.exit_status == 2
