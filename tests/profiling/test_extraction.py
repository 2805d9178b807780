"""What an extraction was bound by, and what would change it."""

import pytest

from headrace.profiling.findings.extraction import extraction
from headrace.profiling.findings.verdict import find
from headrace.profiling.flow import StageRecord
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.profiling.steps import Step, Steps
from headrace.report.charts import charts
from headrace.report.text import render_text
from report.recorded import record

ROLES = {"decode": "decode", "encode": "sink", "write": "sink"}


def extracted(
    *work_ms: float, workers: int = 2, amplification: float = 1.0, format: str = "png"
) -> Session:
    """The session of an extraction whose parts took so long for each step of eight pictures."""
    steps, length = 100, sum(work_ms)
    work = dict(zip(ROLES, work_ms, strict=True))
    rows = [
        Step(
            step=number,
            first_index=8 * number,
            frames=8,
            started_ms=number // workers * length,
            work_ms=work,
            total_ms=length,
        )
        for number in range(steps)
    ]
    stages = tuple(
        StageRecord(
            name=name,
            role=ROLES[name],
            workers=workers,
            items=steps,
            busy_seconds=work[name] * steps / 1e3,
            starved_seconds=0,
            blocked_seconds=0,
        )
        for name in ROLES
    )
    session = record(steps=steps, configuration={"format": format, "workers": None})
    decoded = round(amplification * session.decode.frames_delivered)
    return session.model_copy(
        update={
            "kind": "extract",
            "steps": Steps.of(rows),
            "stages": stages,
            "queues": (),
            "warmup_steps": 0,
            "decode": session.decode.model_copy(update={"frames_decoded": decoded}),
        }
    )


@pytest.mark.parametrize(
    ("session", "headline", "change"),
    [
        (
            extracted(10, 85, 5),
            "Bound by encoding pictures: 85 % of the workers' time.",
            "--format jpg: quicker to encode, and loses a little; what it brings is not known "
            "before it is tried, and less than 6.7 times as fast, "
            "the bound of this part taking no time at all.",
        ),
        (
            extracted(80, 15, 5, amplification=30.0),
            "Bound by decoding: 80 % of the workers' time.",
            "--keyframes, where any frame near those will do: only what is written is decoded; "
            "what it brings is not known before it is tried, and less than 5 times as fast, "
            "the bound of this part taking no time at all.",
        ),
        (
            extracted(80, 15, 5, amplification=1.5),
            "Bound by decoding: 80 % of the workers' time.",
            "Fewer frames, or videos of fewer pixels: little is decoded in vain; what it brings "
            "is not known before it is tried, and less than 5 times as fast, "
            "the bound of this part taking no time at all.",
        ),
        (
            extracted(10, 85, 5, format="jpg"),
            "Bound by encoding pictures: 85 % of the workers' time.",
            "A smaller --size, or fewer frames; what it brings is not known before it is tried, "
            "and less than 6.7 times as fast, "
            "the bound of this part taking no time at all.",
        ),
        (
            extracted(10, 30, 60, format="jpg"),
            "Bound by writing files: 60 % of the workers' time.",
            "A faster disk for -o, or --format with smaller files; what it brings is not known "
            "before it is tried, and less than 2.5 times as fast, "
            "the bound of this part taking no time at all.",
        ),
    ],
)
def test_the_part_that_took_most_is_named_with_what_would_shorten_it(session, headline, change):
    found = extraction(session)
    assert found.headline == headline
    assert found.change.startswith(change)
    assert found in find(session)
    assert headline in render_text(session)


def test_cores_that_were_given_no_worker_come_first():
    found = extraction(extracted(10, 85, 5, workers=2))
    assert "2 workers were at work 100 % of the time." in found.evidence
    session = extracted(10, 85, 5)
    options = session.provenance.configuration | {"workers": 2}
    asked = session.provenance.model_copy(update={"configuration": options})
    assert extraction(session.model_copy(update={"provenance": asked})).change == (
        "--workers 8: this process may use 8 cores: about 4 times as fast (2 of them had a worker)."
    )


def test_a_session_of_another_kind_has_none():
    assert extraction(record()) is None


def test_without_a_model_there_is_no_ratio_of_its_cost():
    assert "L_inf" not in render_text(extracted(10, 85, 5))
    assert "L_inf" in render_text(record())


def test_charts_say_that_the_parts_follow_each_other():
    session = extracted(10, 85, 5)
    drawn = {each.name: each for each in charts(session, Metrics.of(session))}
    assert "in each worker they follow each other" in drawn["stage-use"].reading
    assert "They follow each other" in drawn["stage-times"].reading
