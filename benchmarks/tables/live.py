"""Live: what it costs, how fresh it stays, how it recovers, and the same of others."""

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.live.record import (
    LiveResult,
    Overlap,
    OverlapCase,
    Overloaded,
    OwnCost,
    Part,
    Quantiles,
    Recovering,
    Recovery,
    Rivals,
    Shown,
)
from benchmarks.tables.markdown import DISTURBED, machine_of, spread, table, yes

NAMES = {
    "headrace": "**headrace**",
    "opencv_latest": "OpenCV, a thread and the newest frame",
    "opencv_queue": "OpenCV, a thread and a queue of 96",
    "opencv_loop": "OpenCV, read and run in one loop",
    "none": "none",
    "mobilenet_v2": "mobilenet_v2, one thread",
}


def live(result: LiveResult) -> str:
    """One table for each part that was measured."""
    return "\n\n".join(_blocks(result))


def _blocks(result: LiveResult) -> Iterator[str]:
    if result.own_cost:
        yield _own_cost(result.own_cost)
    if result.overload:
        yield _overload(result.overload)
    if result.overlap:
        yield _overlap(result.overlap)
    if result.rtsp:
        yield _rtsp(result.rtsp)
    if result.rivals:
        yield _rivals(result.rivals)


def _own_cost(found: OwnCost) -> str:
    head = ("own cost of a frame, ms; model", "p50", "p95", "longer work", "hand-over", "repeats")
    lines = [
        (
            NAMES.get(case.model, case.model),
            f"{case.own_ms.p50:.2f}",
            _digits(case.own_ms.p95),
            f"{case.stages_ms.p50:.2f}",
            f"{case.hand_over_ms.p50:.2f}",
            f"{min(case.repeats_p50_ms):.2f}–{max(case.repeats_p50_ms):.2f}",
        )
        for case in found.cases
    ]
    late = sum(case.late_frames for case in found.cases)
    notes = [
        f"{found.definition} Below {found.bar_ms:g} ms in the median: {yes(found.is_within_bar)}.",
        "*Longer work* is what the same stages took longer inside, *hand-over* all between them; "
        "medians. *Repeats*: the median of each repeat, lowest–highest. Both ways gave the same "
        f"frames, bit for bit, before. 720p, {found.provenance.configuration['rate']} frames/s.",
        *([f"The bare loop fell behind at {late} frames: too slow here to tell."] if late else []),
        _where(found),
    ]
    return _with_notes(head, lines, notes)


def _overload(found: Overloaded) -> str:
    memory = found.rss_bytes.after(found.warm_up_seconds)
    age = found.age_ms
    lines = [
        ("age of shown frames, p50", f"{age.p50:.0f} ms"),
        ("p95", "" if age.p95 is None else f"{age.p95:.0f} ms"),
        ("oldest", f"{age.worst:.0f} ms"),
        (f"never above {found.max_staleness_ms:.0f} ms", yes(found.is_fresh)),
        *((f"dropped, {cause}", f"{count:,}") for cause, count in sorted(found.drops.items())),
        ("arrived = delivered + dropped + in flight", yes(found.is_conserved)),
        ("memory", f"{max(memory.values, default=0) / 2**20:,.0f} MiB"),
        ("its slope", f"{memory.slope * 60 / 2**20:+.2f} MiB a minute"),
        ("flat", yes(found.is_memory_flat)),
    ]
    notes = [
        f"{found.source_fps:.0f} frames/s of 720p for {found.seconds:.0f} s, paced, to a model "
        f"that takes {found.model_ms:.0f} ms, with a largest age of {found.max_staleness_ms:.0f} "
        f"ms: {found.arrived:,} frames came, {found.delivered:,} were shown. Age counts from when "
        "a frame was due until it is handed to the sink. Memory is judged after "
        f"{found.warm_up_seconds:.0f} s: flat is a growth by less than a fiftieth.",
        _where(found),
    ]
    return _with_notes(("three times too many frames", ""), lines, notes)


def _overlap(found: Overlap) -> str:
    head = (
        *("stages", "decode + preprocess + model, ms", "gain of threads"),
        *("sum / max of stages", "cores allow", "gain / stages' bound"),
    )
    lines = [
        (
            case.name,
            " + ".join(f"{_stage(case, name):.1f}" for name in case.pairs[0].stage_ms),
            spread(case.gains, ".2f"),
            f"{median(case.by_stages):.2f}",
            f"{median(case.by_cores):.2f}",
            f"{case.share:.2f}" if case.is_of_stages else f"{case.share:.2f}*",
        )
        for case in found.cases
    ]
    pairs = len(found.cases[0].pairs) if found.cases else 0
    bound = [case for case in found.cases if case.is_of_stages]
    held = sum(case.share >= 0.9 for case in bound)
    notes = [
        f"One after another beside a thread for each stage, median of {pairs} pairs in turn "
        "(lowest–highest). *Cores allow* is the cores times wall time over processor time, one "
        "after another: more no threads can gain. \\*: the cores bound it, not the stages. Within "
        f"10% of the stages' bound where the cores allow it: {held} of {len(bound)}.",
        _where(found),
    ]
    return _with_notes(head, lines, notes)


def _rtsp(found: Recovering) -> str:
    [ours] = found.found
    first = ours.first_picture_seconds or 0.0
    beyond = [None if each is None else each - first for each in ours.again_seconds]
    lines = [
        _over("from SIGSTOP until it is noticed", ours.noticed_seconds, found.noticed_bar_seconds),
        _over("from SIGCONT to a picture", ours.resumed_seconds, None),
        _over(
            "from the restarted server to a picture, beyond the first one's time",
            beyond,
            found.again_bar_seconds,
        ),
    ]
    notes = [
        f"GStreamer's RTSP server, a real clip of 720p at 30 frames/s, over TCP; "
        f"{len(ours.noticed_seconds)} stalls and {len(ours.again_seconds)} kills in one run. The "
        f"first picture was there {first:.2f} s after it was asked for.",
        _where(found),
    ]
    head = ("a source that fails, s", "median", "worst", "bar", "held")
    return _with_notes(head, lines, notes)


def _over(
    name: str, values: Sequence[float | None], bar: float | None
) -> tuple[str, str, str, str, str]:
    known = [value for value in values if value is not None]
    missed = len(values) - len(known)
    if not known:
        return (
            name,
            "never",
            "never",
            "" if bar is None else f"{bar:g}",
            "" if bar is None else "no",
        )
    worst = f"never ({missed} of {len(values)})" if missed else f"{max(known):.2f}"
    is_held = not missed and (bar is None or max(known) < bar)
    shown = "" if bar is None else yes(is_held)
    return name, f"{median(known):.2f}", worst, "" if bar is None else f"< {bar:g}", shown


def _rivals(found: Rivals) -> str:
    keeps, overloaded = found.keeping_up, found.overloaded
    by_way = {each.way: each for each in overloaded.shown}
    head = (
        *("RTSP, 720p at 30 frames/s", "age p50 / p95, ms", "shown/s"),
        *("three times too many: age p50 / p95 / worst, ms", "shown/s"),
    )
    lines = [
        (
            NAMES[each.way],
            *_shown(each, ("p50", "p95")),
            *_shown(by_way[each.way], ("p50", "p95", "worst")),
        )
        for each in keeps.shown
    ]
    after = table(
        (
            *("a source that fails", "first picture, s", "stall noticed, s"),
            *("picture after it, s", "age then, ms", "picture of the restarted one, s"),
        ),
        [_recovered(each) for each in found.recovery],
    )
    return f"{table(head, lines)}\n\n{_with_notes_below(after, _rivals_notes(found))}"


def _rivals_notes(found: Rivals) -> list[str]:
    keeps, model_ms = found.keeping_up, found.overloaded.model_ms
    return [
        f"mobilenet_v2 with one thread, and the same made to take {model_ms:.0f} ms; "
        f"each way in a process of its own, {keeps.seconds:.0f} s after "
        f"{keeps.warm_up_seconds:.0f} s of warm-up. Age is by the sender's clock, from the "
        "moment a frame was due to be sent until the model is done with it; each frame carries "
        "its number, and that its pixels are that frame's was proved first. headrace was asked for "
        f"{found.provenance.configuration['max_staleness']} at most under overload, counted from "
        "the frame's arrival here; a loop cannot be asked.",
        "OpenCV has its defaults. Its loops open a stream again a second after reading fails; as "
        "people write them, most end there. *Never*: not before the next event, seconds later.",
        *(f"Not measured: {name}: {why}." for name, why in found.left_out.items()),
        f"{_versions(keeps.shown)} {_where(found)}",
    ]


def _shown(each: Shown, names: Sequence[str]) -> tuple[str, str]:
    if each.failure is not None or each.age_ms is None:
        return f"failed: {each.failure or 'nothing shown'}", ""
    ages: Quantiles = each.age_ms
    cells = [_digits(getattr(ages, name), 0) or "too few" for name in names]
    return " / ".join(cells), f"{each.per_second:.1f}"


def _recovered(each: Recovery) -> tuple[str, ...]:
    if each.failure is not None:
        return NAMES[each.way], f"failed: {each.failure}", "", "", "", ""
    return (
        NAMES[each.way],
        _digits(each.first_picture_seconds),
        _median(each.noticed_seconds, 2),
        _median(each.resumed_seconds, 2),
        _median(each.age_after_stall_ms, 0),
        _median(each.again_seconds, 2),
    )


def _median(values: Sequence[float | None], digits: int) -> str:
    """The median; `never` where half of them are missing."""
    known = sorted(value for value in values if value is not None)
    if 2 * len(known) <= len(values):
        return "never"
    return _digits(median([*known, *[known[-1]] * (len(values) - len(known))]), digits)


def _versions(shown: Sequence[Shown]) -> str:
    found: dict[str, str] = {}
    for each in shown:
        found |= {name: said for name, said in each.versions.items() if name != "libavcodec"}
    return ", ".join(f"{name} {said}" for name, said in found.items()) + "."


def _stage(case: OverlapCase, name: str) -> float:
    return median(pair.stage_ms[name] for pair in case.pairs)


def _digits(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _where(part: Part) -> str:
    """What it ran on and how quiet that was."""
    share = part.others_share
    noise = "" if share is None else f"Other work took {share:.0%} of the CPU time"
    if share is not None and share > DISTURBED:
        noise += ": disturbed, to be measured again"
    return f"{noise}{'. ' if noise else ''}{machine_of(part.provenance)}"


def _with_notes(head: Sequence[str], lines: Sequence[Sequence[str]], notes: list[str]) -> str:
    return _with_notes_below(table(head, lines), notes)


def _with_notes_below(drawn: str, notes: list[str]) -> str:
    joined = "\n".join(notes)
    return f"{drawn}\n\n{joined}"
