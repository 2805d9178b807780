"""Findings of the overlap benchmark: the fastest variant, its bound and its latency."""

from bench.records import local_provenance, timing
from headrace.bench.overlap import OVERLAP, VARIANTS, OverlapRecord, OverlapRepetition

WORK = {"decode": 2.0, "preprocess": 1.0, "model": 5.0, "show": 2.0}


def recorded(rates, *, cores=1.0, usable=4, others=0.0):
    """Return a record of two repetitions per variant, from their frames/s and mean latency."""
    turns = []
    for variant, (fps, ms) in zip(VARIANTS, rates, strict=True):
        for latency in ((), (ms - 1,) * 30 + (ms + 1,) * 30):
            times = {
                **timing(2, cores=cores, others=others),
                "latency_ms": latency,
                "work_ms": WORK,
            }
            turns += [OverlapRepetition(way=variant, fps=fps, **times)] * 2
    facts = {"videos": 1, "frames": 60, "settling": 10, "offered_fps": 70, "compared": 70}
    facts |= {"model_seconds": 0.5, "processes_seconds": 8}
    here = local_provenance("headrace", "bench", "overlap", cores=usable)
    return OverlapRecord(provenance=here, turns=tuple(turns), **facts)


USUAL = ((100, 11), (150, 12), (140, 14))


def at(*fps, **options):
    """Return a record of the frames per second of sequential stages, threads and processes."""
    return recorded([(rate, 9) for rate in fps], **options)


def test_findings_on_variants(check_pages):
    cases = {
        "the cores allow it": recorded(USUAL),
        "two cores allow it too": recorded(USUAL, usable=2),
        "the cores allow less": recorded(USUAL, cores=1.6, usable=2),
        "all cores are busy": recorded(USUAL, cores=2.0, usable=2),
        "one core is busy": recorded(USUAL, usable=1),
        "no gain, as cores are busy": at(100, 99, 60, cores=2.0, usable=2),
        "no gain, as overlap costs": at(100, 80, 60),
        "all that stages allow": at(100, 195, 190),
        "all that cores allow": at(100, 120, 118, cores=1.6, usable=2),
        "processes are faster": at(100, 110, 150),
        "other programs ran": at(100, 150, 140, others=1.0),
        "one does not keep up": recorded([(60, 90), (150, 12), (140, 14)]),
    }
    check_pages(OVERLAP, cases)


def test_the_work_of_each_stage_is_that_of_the_sequential_variant():
    work = OVERLAP.terms.work(recorded(USUAL))
    expected = {"decode": 2.0, "preprocess": 1.0, "model": 5.0, "sink": 2.0}
    assert {role: stage.ms for role, stage in work.items()} == expected
    assert all(stage.cpu_ms == stage.ms for stage in work.values())


def test_a_p95_of_too_few_frames_is_not_shown():
    usual = recorded(USUAL)
    few = [t.model_copy(update={"latency_ms": t.latency_ms[:20]}) for t in usual.turns]
    page = OVERLAP.page(usual.model_copy(update={"turns": tuple(few)}))
    assert [row[-1] for row in page.table.rows] == ["n too small"] * 3
