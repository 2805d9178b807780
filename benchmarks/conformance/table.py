"""Draws a conformance run: what each way made of the files, then each file that is not right."""

from collections.abc import Iterator, Sequence

from benchmarks.conformance.verdict import (
    FAULTS,
    HEADRACE,
    KINDS,
    ConformanceResult,
    Count,
    FileRow,
    Verdict,
)

_TITLES = {
    "refused with complaint": "refused, FFmpeg complains",
    "refused without": "refused, it does not",
    "traceback": "tracebacks",
    "hang": "hangs",
    "crash": "crashes",
}


def render(result: ConformanceResult) -> str:
    """Return the tables of headrace and of each library, as text."""
    rows = result.rows
    read = [row for row in rows if row.state == "read"]
    parts = [
        f"{len(rows)} files: {len(read)} held against a plain linear decode "
        f"({sum(row.frames for row in read):,} frames), "
        f"{sum(row.complaints > 0 for row in read)} of them with complaints of FFmpeg's; "
        f"{sum(row.state == 'no video' for row in rows)} no video"
    ]
    parts += list(_unread(rows))
    for party in dict.fromkeys(count.party for count in result.summary):
        about = result.versions.get(party, {})
        named = ", ".join(f"{name} {version}" for name, version in about.items())
        parts.append(f"\n{party}" + (f" ({named})" if named else ""))
        parts.append(_table([count for count in result.summary if count.party == party]))
        parts += _not_right(rows, party)
    return "\n".join(parts)


def _table(counts: Sequence[Count]) -> str:
    header = [
        "way",
        *(_TITLES.get(kind, kind) for kind in KINDS),
        "frames",
        "of these wrong",
        "refused",
    ]
    lines = [
        [
            count.way,
            *(str(count.files[kind]) for kind in KINDS),
            f"{count.frames:,}",
            f"{count.wrong:,}",
            f"{count.refused_with:,} + {count.refused_without:,}",
        ]
        for count in counts
    ]
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    return "\n".join(
        "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
        for cells in (header, *lines)
    )


def _unread(rows: Sequence[FileRow]) -> Iterator[str]:
    for row in rows:
        if row.state == "no video":
            yield f"  {row.name}: no video: {row.reason}"
        elif row.state != "read":
            yield f"  {row.name}: the plain decode {_ENDS[row.state]}: {row.reason}"


_ENDS = {"hang": "hangs", "crash": "crashes", "failed": "fails"}


def _not_right(rows: Sequence[FileRow], party: str) -> Iterator[str]:
    """One line for each file, those first that are a fault of the party's."""
    lines: list[tuple[bool, str]] = []
    for row in rows:
        bad = [each for each in row.of(party) if each.kind != "right"]
        if not bad:
            continue
        is_fault = any(each.kind in FAULTS for each in bad)
        what = "; ".join(map(_words, bad))
        reason = next((each.reason for each in bad if each.reason), "")
        says = f" [FFmpeg, at {row.complaints} packets: {row.lines[0]}]" if row.lines else ""
        facts = f"{row.container.split(',')[0]} {row.codec}, {row.frames} frames"
        if party == HEADRACE and row.index_frames not in (None, row.frames):
            facts += f", {row.index_frames} in the index"
        reasons = f" — {reason}" if reason else ""
        lines.append((is_fault, f"  {row.name} ({facts}): {what}{reasons}{says}"))
    for is_fault in (True, False):
        found = [line for fault, line in lines if fault is is_fault]
        if found:
            yield "not right:" if is_fault else "refused where FFmpeg complains too:"
            yield from found


def _words(verdict: Verdict) -> str:
    counts = {
        "wrong": verdict.wrong,
        "refused without": verdict.refused_without,
        "refused with complaint": verdict.refused_with,
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    if parts:
        parts[-1] += f" of {verdict.frames}"
    if verdict.ending != "done":
        parts.insert(0, verdict.ending)
    examples = f" ({', '.join(verdict.examples[:2])})" if verdict.examples else ""
    return f"{verdict.way}: {', '.join(parts)}{examples}"
