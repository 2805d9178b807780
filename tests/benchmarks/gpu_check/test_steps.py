"""The steps are those that a machine with a GPU needs, and name what is there."""

import re
from pathlib import Path

import pytest

from benchmarks.gpu_check.steps import ALWAYS, OF_A_GPU, OF_NVDEC, Plan, steps_of
from benchmarks.record import ROOT
from headrace.bench.registry import EXPERIMENTS
from headrace.measuring.config_fields import option_fields


def steps(*, is_rehearsal=False):
    """Return all of them."""
    return steps_of(Plan(out=Path("/tmp/out"), is_rehearsal=is_rehearsal), {}, [])


def test_a_rehearsal_has_the_same_steps_and_needs_no_gpu():
    names = [step.name for step in steps()]
    assert [step.name for step in steps(is_rehearsal=True)] == names
    assert len(set(names)) == len(names)
    assert tuple(names[:2]) == ALWAYS
    needs = {need for step in steps(is_rehearsal=True) for need in step.needs}
    assert needs <= {"bench decode", "bench transfer"}


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
    known = {each.name: each.config for each in EXPERIMENTS}
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
