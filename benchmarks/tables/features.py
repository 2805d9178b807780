"""What keeping features takes, beside decoding and the model alone."""

from statistics import median

from benchmarks.bench_features import QUARTER, WAYS, FeatureRow, FeaturesResult
from benchmarks.tables.markdown import DISTURBED, machine, spread, table

BAR, CACHE_BAR = 0.95, 20.0
_SAID = {
    "bare": "decode + model, a bare loop",
    "bare, a quarter": "the same, a quarter of the videos",
    "one_by_one": "one video at a time, encoded anew, batch 1",
    "none": "**headrace**, no cache",
    "none, a quarter": "**headrace**, no cache, a quarter of the videos",
    "sqlite": "**headrace**, SQLite, first run",
    "sqlite, again": "**headrace**, SQLite, second run",
    "redis": "**headrace**, Redis, first run",
    "redis, again": "**headrace**, Redis, second run",
}


def features(result: FeaturesResult) -> str:
    """One line per way; then what the two bars of the second and third column came to."""
    rows = {row.way: row for row in result.rows}
    lines = [
        [
            _SAID[way],
            _seconds(rows[way]),
            *(
                ["", ""]
                if way.endswith(QUARTER)
                else [_ratio(result, way, "bare"), _ratio(result, way, "none")]
            ),
        ]
        for way in WAYS
        if way in rows
    ]
    said = result.provenance.configuration
    shares = [share for row in result.rows for each in row.repeats if (share := each.others_share)]
    disturbed = max(shares, default=0.0)
    judged = (
        f"Other work took {disturbed:.0%} of the CPU time in the worst run: no verdict. "
        if disturbed > DISTURBED
        else _judged(result)
    )
    notes = (
        f"mobilenet_v2, the {said['rate']} frames a second of {said['count']} web videos of 10 s, "
        f"1280×720; whole commands, imports included; {said['repeats']} rounds in turn "
        "(lowest–highest). The features of headrace are those of the bare loop (least cosine "
        f"{result.least_cosine:.5f}). {judged}{machine(result)}"
    )
    header = ("", "seconds", "times as fast as the loop", "as headrace without a cache")
    return f"{table(header, lines)}\n\n{notes}"


def _judged(result: FeaturesResult) -> str:
    found = []
    for what, ratios, bar in (
        ("further videos beside the loop's", result.further(), BAR),
        ("the second run from SQLite", result.ratios("sqlite, again", "none"), CACHE_BAR),
    ):
        if ratios:
            held = "held" if median(ratios) >= bar else "**not held**"
            found.append(f"{what}: {spread(ratios, '.2f')} times as fast, bar of {bar:g} {held}")
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}. " if text else ""


def _seconds(row: FeatureRow) -> str:
    if row.failure or not row.repeats:
        return f"failed: {row.failure}"
    return spread([each.wall_seconds for each in row.repeats], ".1f")


def _ratio(result: FeaturesResult, way: str, other: str) -> str:
    ratios = result.ratios(way, other)
    return spread(ratios, ".2f") if ratios else ""
