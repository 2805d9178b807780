"""What steps print is read; what is not as it should be is said."""

import json

import pytest

from benchmarks.gpu_check import readings
from benchmarks.gpu_check.step import Ended, UnreadError
from headrace.profiling.trace import NAME, write_trace


def ended(stdout="", stderr=""):
    """Return a process that ended well."""
    return Ended(exit_status=0, stdout=stdout, stderr=stderr)


def junit(path, cases):
    """Write the report of pytest on some cases."""
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


PASSED = "<testcase name='a'/>"
SKIPPED = "<testcase name='b'><skipped message='there is a GPU here'/></testcase>"


def test_tests_that_were_skipped_are_counted_by_their_reason(tmp_path):
    path = junit(tmp_path / "tests.xml", [PASSED, SKIPPED, SKIPPED])
    found = readings.tests(path)(ended())
    assert found.said == "1 tests passed, 2 skipped"
    assert found.rows == (("there is a GPU here", "2"),)


def test_tests_of_which_none_ran_do_not_pass(tmp_path):
    with pytest.raises(UnreadError, match="of 1 tests none was run"):
        readings.tests(junit(tmp_path / "tests.xml", [SKIPPED]))(ended())
    with pytest.raises(UnreadError, match="of 0 tests none was run"):
        readings.tests(junit(tmp_path / "tests.xml", []))(ended())
    with pytest.raises(UnreadError, match="pytest left no report"):
        readings.tests(tmp_path / "nothing.xml")(ended())


def test_a_refusal_is_one_line():
    found = readings.refusal(ended(stderr="headrace: leave out --enable-compile\n"))
    assert found.said == "refused, as it should be: leave out --enable-compile"
    for stderr in ("", "Traceback (most recent call last):\nheadrace: x\n", "Error: x\n"):
        with pytest.raises(UnreadError, match="does not say in a line"):
            readings.refusal(ended(stderr=stderr))


@pytest.mark.parametrize("printed", ["", "{", '{"version": 2}'])
def test_what_is_no_record_does_not_pass(printed, tmp_path):
    for read in (readings.bench("memory"), readings.inference(tmp_path, None), readings.report):
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
        readings.traced(tmp_path, copies=False)(ended())
    times = {"ts": 0, "dur": 1500}
    events = [{"cat": "gpu_memcpy", "name": "Memcpy HtoD", **times}, {"cat": "kernel", **times}]
    write_trace(tmp_path / NAME, events)
    found = readings.traced(tmp_path, copies=True)(ended())
    assert found.said == "1 copies to the GPU took 1.50 ms, 100% of it beside kernels"
    with pytest.raises(UnreadError, match="in its trace 1 copies to the GPU took"):
        readings.traced(tmp_path, copies=False)(ended())
    write_trace(tmp_path / NAME, events[1:])
    with pytest.raises(UnreadError, match="in its trace nothing was copied to a GPU"):
        readings.traced(tmp_path, copies=True)(ended())
