"""Which way is the fastest, what bounds it, and what it costs a single frame."""

import pytest

from headrace.bench.overlap import VARIANTS, OverlapRecord, OverlapTurn
from headrace.bench.overlap_report import OVERLAP, Bounds, rows_of
from headrace.profiling.machine import provenance
from headrace.report.numbers import decimal

WORK = {"decode": 2.0, "preprocess": 1.0, "model": 5.0, "show": 2.0}


def recorded(rates, *, cores=1.0, usable=4, others=0.0):
    """Return a record of two turns each: frames per second and mean latency of each variant."""
    turns = []
    for way, (fps, ms) in zip(VARIANTS, rates, strict=True):
        for latency in ((), (ms - 1,) * 30 + (ms + 1,) * 30):
            one = OverlapTurn(
                way=way,
                seconds=2,
                cpu_seconds=2 * cores,
                others_cpu_seconds=2 * others,
                fps=fps,
                latency_ms=latency,
                work_ms=WORK,
            )
            turns += [one] * 2
    made = provenance({}, ("headrace", "bench", "overlap"))
    machine = made.machine.model_copy(update={"usable_cores": usable})
    return OverlapRecord(
        provenance=made.model_copy(update={"machine": machine}),
        videos=1,
        frames=60,
        settling=10,
        offered_fps=70,
        model_seconds=0.5,
        processes_seconds=8,
        compared=70,
        turns=tuple(turns),
    )


USUAL = ((100, 11), (150, 12), (140, 14))


def found(*fps, **options):
    """Return the finding of frames per second in sequence, in threads and in processes."""
    [finding] = OVERLAP.page(recorded([(each, 9) for each in fps], **options)).findings
    return finding


@pytest.mark.parametrize(
    ("cores", "usable", "said", "most"),
    [
        (1.0, 4, "the cores allow it", 2.0),
        (1.0, 2, "the cores allow it", 2.0),
        (1.6, 2, "1.60 of 2 cores busy, so these allow 1.25 times", 1.25),
        (2.0, 2, "2.00 of 2 cores busy, so these allow 1.00 times", 1.0),
        (1.0, 1, "1.00 of 1 core busy, so these allow 1.00 times", 1.0),
    ],
)
def test_the_bound_is_that_of_the_stages_or_of_the_cores(cores, usable, said, most):
    measured = recorded(USUAL, cores=cores, usable=usable)
    [finding] = OVERLAP.page(measured).findings
    assert said in finding.evidence[0]
    assert Bounds.of(rows_of(measured)[0], usable).most == pytest.approx(most)


NOTHING = "Overlap gains nothing here: 100 frames/s in sequence"
BOTH = "Fastest by threads and processes: "


@pytest.mark.parametrize(
    ("fps", "options", "headline", "change"),
    [
        ((100, 99, 60), {"cores": 2.0, "usable": 2}, NOTHING, "More cores: those there are are"),
        ((100, 80, 60), {}, NOTHING, "A quicker model: what overlap costs is as much as it gains"),
        (
            (100, 195, 190),
            {},
            f"{BOTH}195 frames/s, 1.95 times sequential",
            "A quicker model: overlap gains all that it can.",
        ),
        (
            (100, 120, 118),
            {"cores": 1.6, "usable": 2},
            f"{BOTH}120 frames/s, 1.20 times sequential",
            "A quicker model, or more cores: overlap gains all that it can.",
        ),
        (
            (100, 110, 150),
            {},
            "Fastest by processes: 150 frames/s, 1.50 times sequential",
            "Several runs beside each other",
        ),
        (
            (100, 150, 140),
            {"others": 1.0},
            "Other programs ran meanwhile, so it is uncertain which way is the fastest; by the "
            "median threads: 150 frames/s",
            "The same again",
        ),
    ],
)
def test_the_verdict_follows_from_the_figures(fps, options, headline, change):
    finding = found(*fps, **options)
    assert finding.headline == headline
    assert finding.change.startswith(change)


@pytest.mark.parametrize(
    ("fps", "options", "gain", "words"),
    [
        ((100, 110, 165), {}, 1.5, "Several runs beside each other"),
        ((100, 80, 60), {}, 1.25, "A loop that does one stage after the other"),
        ((100, 150, 140), {}, None, "threads are as fast as any: a run has that gain already"),
        ((100, 150, 140), {"others": 1.0}, None, "no verdict"),
    ],
)
def test_the_advice_is_what_another_variant_gains_on_the_threads_of_a_run(
    fps, options, gain, words
):
    advice = found(*fps, **options).advice
    if gain is None:
        assert advice is None, words
        return
    assert (advice.gain, advice.words.split(",")[0]) == (gain, words)
    against = f"{max(fps)} frames/s against {decimal(fps[1])} in threads, as headrace run works"
    assert advice.rests_on == against


def test_the_work_of_each_stage_is_that_of_the_sequential_way():
    work = OVERLAP.terms.work(recorded(USUAL))
    assert {role: stage.ms for role, stage in work.items()} == {
        "decode": 2.0,
        "preprocess": 1.0,
        "model": 5.0,
        "sink": 2.0,
    }
    assert all(stage.cpu_ms == stage.ms for stage in work.values())


def test_a_variant_that_does_not_keep_up_is_named_beside_its_latency():
    [finding] = OVERLAP.page(recorded([(60, 90), (150, 12), (140, 14)])).findings
    said = "with which sequential did not always keep up, so that queues are in it"
    assert said in finding.evidence[1]


def test_a_p95_of_too_few_frames_is_not_shown():
    made = recorded(USUAL)
    few = [t.model_copy(update={"latency_ms": t.latency_ms[:20]}) for t in made.turns]
    page = OVERLAP.page(made.model_copy(update={"turns": tuple(few)}))
    assert [row[-1] for row in page.table.rows] == ["n too small"] * 3
