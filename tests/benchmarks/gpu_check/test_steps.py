"""Steps of the check, pairs of flags of a run, and parsers of output."""

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
def test_two_flags_are_combined_in_each_allowed_way(pair):
    refused = {(True, True)} if {*pair} in map(set, REFUSED) else set()
    combined = {tuple(flag in run for flag in pair) for run in RUNS}
    assert combined == {*product((True, False), repeat=2)} - refused


def test_runs_are_few_and_the_plain_run_is_first():
    assert len(FLAGS) == 7
    assert RUNS[0] == ()
    assert len(RUNS) == len({*RUNS}) <= 8


def test_the_test_files_of_a_rehearsal_exist(tmp_path):
    steps = steps_of(Plan(out=tmp_path, is_rehearsal=True), {}, [])
    files = {Path(word) for step in steps for word in step.arguments if word.endswith(".py")}
    assert len(files) > 4
    assert [path for path in files if not (ROOT / path).is_file()] == []


def ended(stdout="", stderr=""):
    """Return a process with exit status 0."""
    return Ended([], 0, stdout, stderr)


def junit(path, cases):
    """Write a report of pytest with these cases."""
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


PASSED = "<testcase name='a'/>"
SKIPPED = "<testcase name='b'><skipped message='a GPU is present'/></testcase>"


def test_skipped_tests_are_counted_by_reason(tmp_path):
    path = junit(tmp_path / "tests.xml", [PASSED, SKIPPED, SKIPPED])
    reading = readings.tests(ended(), junit=path)
    assert reading.said == "1 tests passed, 2 skipped"
    assert reading.rows == (("a GPU is present", "2"),)


def test_a_report_without_run_tests_does_not_pass(tmp_path):
    with pytest.raises(UnreadError, match="0 of 1 tests ran"):
        readings.tests(ended(), junit=junit(tmp_path / "tests.xml", [SKIPPED]))
    with pytest.raises(UnreadError, match="0 of 0 tests ran"):
        readings.tests(ended(), junit=junit(tmp_path / "tests.xml", []))
    with pytest.raises(UnreadError, match="pytest wrote no report"):
        readings.tests(ended(), junit=tmp_path / "nothing.xml")


def test_a_refusal_is_one_line():
    reading = readings.refusal(ended(stderr="headrace: leave out --enable-compile\n"))
    assert reading.said == "refused as expected: leave out --enable-compile"
    for stderr in ("", "Traceback (most recent call last):\nheadrace: x\n", "Error: x\n"):
        with pytest.raises(UnreadError, match="not an error of headrace"):
            readings.refusal(ended(stderr=stderr))


@pytest.mark.parametrize("printed", ["", "{", '{"version": 2}'])
def test_output_without_a_record_does_not_pass(printed, tmp_path):
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


def test_predictions_are_compared_with_the_plain_run(tmp_path):
    plain = predictions(0.5, 0.25)
    compare = readings._max_difference
    assert compare(predictions(0.51, 0.25), plain) == pytest.approx(0.02)
    with pytest.raises(UnreadError, match=r"differs from run:plain's by 20.0%"):
        compare(predictions(0.5, 0.3), plain)
    with pytest.raises(UnreadError, match="by inf%"):
        compare(predictions(0.5, float("nan")), plain)
    for others in (predictions(0.5), predictions(0.5, 0.25, first=1)):
        with pytest.raises(UnreadError, match="the frames of the predictions differ"):
            compare(others, plain)
    (tmp_path / "predictions.jsonl").write_text("\n".join(map(json.dumps, plain)))
    assert readings._predictions(tmp_path) == plain
    with pytest.raises(UnreadError, match="nowhere has no predictions"):
        readings._predictions(tmp_path / "nowhere")


def test_a_trace_has_copies_only_if_they_are_expected(tmp_path, monkeypatch):
    monkeypatch.setattr(readings, "_session", lambda _: None)
    with pytest.raises(UnreadError, match="the run wrote no trace: "):
        readings.traced(ended(), out=tmp_path, copies=False)
    times = {"ts": 0, "dur": 1500}
    events = [{"cat": "gpu_memcpy", "name": "Memcpy HtoD", **times}, {"cat": "kernel", **times}]
    write_trace(tmp_path / NAME, events)
    reading = readings.traced(ended(), out=tmp_path, copies=True)
    assert reading.said == "1 copies to the GPU took 1.50 ms, 100% of it during kernels"
    with pytest.raises(UnreadError, match="unexpected trace: 1 copies to the GPU took"):
        readings.traced(ended(), out=tmp_path, copies=False)
    write_trace(tmp_path / NAME, events[1:])
    with pytest.raises(UnreadError, match="unexpected trace: no copies to a GPU"):
        readings.traced(ended(), out=tmp_path, copies=True)


def steps(*, is_rehearsal=False):
    """Return all steps."""
    return steps_of(Plan(out=Path("/tmp/out"), is_rehearsal=is_rehearsal), {}, [])


def test_a_rehearsal_has_the_same_steps_and_needs_no_gpu():
    names = [step.name for step in steps()]
    assert [step.name for step in steps(is_rehearsal=True)] == names
    assert len(set(names)) == len(names)
    assert tuple(names[:2]) == check.ALWAYS
    assert {need for step in steps(is_rehearsal=True) for need in step.needs} == set()


def test_the_step_of_pynvvideocodec_needs_the_library():
    [step] = [step for step in steps() if step.name == "pynvvideocodec:frames"]
    assert step.needs == ("a GPU", "NVDEC", "PyNvVideoCodec")


def test_every_test_that_needs_a_gpu_is_selected():
    words = OF_A_GPU.split(" or ")
    names = [
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(
            r"^@needs_gpu\n(?:[@ )].*\n)*def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert len(names) > 5
    assert [name for name in names if not any(word in name for word in words)] == []


def test_the_two_halves_of_the_tests_are_complete():
    commands = [step.arguments for step in steps() if step.group == "tests"]
    words = [arguments[arguments.index("-k") + 1] for arguments in commands]
    assert words == [f"({OF_A_GPU}) and not ({OF_NVDEC})", f"({OF_A_GPU}) and ({OF_NVDEC})"]


@pytest.mark.parametrize("is_rehearsal", [True, False])
def test_benchmarks_have_the_options_of_their_steps(is_rehearsal):
    configs = {benchmark.name: benchmark.config for benchmark in BENCHMARKS}
    for step in steps(is_rehearsal=is_rehearsal):
        if step.arguments[:3] != ("-m", "headrace", "bench") or step.arguments[3] not in configs:
            continue
        fields = option_fields(configs[step.arguments[3]])
        flags = {f"--{field.name.replace('_', '-')}" for field in fields} | {"--out", "--json"}
        options = {word for word in step.arguments if word.startswith("--")}
        assert options <= flags, step.name


def test_runs_that_decode_on_the_gpu_need_nvdec_and_others_do_not():
    runs = [step for step in steps() if step.group == "run"]
    decoding = [step for step in runs if "--decode" in step.arguments and not step.exit_status]
    assert len(decoding) >= 2
    assert {step.needs for step in decoding} == {("a GPU", "NVDEC")}
    assert [step.name for step in runs if "NVDEC" in step.needs and step not in decoding] == []
    for step in steps(is_rehearsal=True):
        assert "--decode" not in step.arguments or step.exit_status == 2
