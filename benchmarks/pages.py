"""Write the results into README.md and pages of docs/, between their markers.

python -m benchmarks.pages            # write the pages and the charts
python -m benchmarks.pages --check    # fail if they differ from the results
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from benchmarks.bench_extract import extracting
from benchmarks.bench_extract_memory import MemoryResult, flat
from benchmarks.bench_random_frames import CHARTED, headline
from benchmarks.bench_sequential import NAMES, sequential
from benchmarks.command_line import call
from benchmarks.markdown import by_name, quickest_first
from benchmarks.record import RESULTS, Row, TimedResult
from benchmarks.worker import ROOT

THEMES = {
    "light": {"text": "#1f2328", "headrace": "#0969da", "others": "#8c959f"},
    "dark": {"text": "#e6edf3", "headrace": "#4493f8", "others": "#6e7681"},
}
"""Colors of GitHub's two themes; the background is transparent."""
WIDTH, LABELS, BAR, GAP, TOP = 760, 250, 15, 12, 34
OPACITIES = [1.0, 0.55, 0.35]


def bars(title: str, lines: Sequence[Sequence[Row]], names: Mapping[str, str], theme: str) -> str:
    """Return an SVG with a group of bars per timed entrant in `names`, a bar per kind of media."""
    colours = THEMES[theme]
    groups = [rows for rows in lines if rows[0].name in names and any(r.repeats for r in rows)]
    fastest = max((row.speed for rows in groups for row in rows), default=1.0)
    kinds = [row.kind for row in groups[0]] if groups else []
    parts = [_legend(kinds, colours["others"], colours["text"])]
    top = TOP
    for rows in groups:
        middle = top + BAR * len(rows) / 2 + 4
        is_ours = rows[0].name.startswith("headrace")
        style = ' text-anchor="end"' + (' font-weight="600"' if is_ours else "")
        name = escape(names[rows[0].name].replace("**", ""))
        parts.append(_text(LABELS - 10, middle, name, colours["text"], style))
        colour = colours["headrace" if is_ours else "others"]
        for row, opacity in zip(rows, OPACITIES, strict=False):
            length = (WIDTH - LABELS - 60) * row.speed / fastest
            parts.append(_bar(LABELS, top, length, colour, opacity))
            parts.append(
                _text(LABELS + length + 6, top + BAR - 3, f"{row.speed:,.0f}", colours["text"])
            )
            top += BAR
        top += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" '
        'font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def picture(name: str, title: str, folder: str) -> str:
    """Return HTML that shows the chart of `name` in `folder`, in the theme of the page."""
    return (
        '<picture>\n<source media="(prefers-color-scheme: dark)" '
        f'srcset="{folder}/{name}-dark.svg">\n'
        f'<img alt="{escape(title)}" src="{folder}/{name}-light.svg">\n</picture>'
    )


def _legend(kinds: list[str], colour: str, text: str) -> str:
    parts = []
    for number, (kind, opacity) in enumerate(zip(kinds, OPACITIES, strict=False)):
        left = LABELS + 80 * number
        parts += [_bar(left, 8, 22, colour, opacity), _text(left + 28, 19, kind, text)]
    parts.append(_text(WIDTH - 4, 19, "frames/s", text, ' text-anchor="end"'))
    return "\n".join(parts)


def _bar(left: float, top: float, length: float, colour: str, opacity: float) -> str:
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{length:.1f}" height="{BAR - 2}" '
        f'fill="{colour}" opacity="{opacity:g}"/>'
    )


def _text(left: float, base: float, text: str, colour: str, more: str = "") -> str:
    return f'<text x="{left:.1f}" y="{base:g}" fill="{colour}"{more}>{text}</text>'


README, TABLES, SCALE = "README.md", "docs/benchmarks.md", "docs/guides/scale.md"
RECORDS = {
    "cameras": "headrace.bench.cameras.CamerasRecord",
    "cameras_speed": "headrace.bench.cameras.CamerasRecord",
    "conformance": "benchmarks.conformance.verdict.ConformanceResult",
    "draws": "benchmarks.conformance.verdict.DrawsResult",
    "live": "benchmarks.bench_live.LiveResult",
    "soak": "benchmarks.soak.SoakResult",
}
"""Name of a result → its type, for results without a `BENCHMARK` in a module of their name."""
TITLES = {
    "sequential": "Frames per second of each library, every frame in order",
    "random_frames": "Uniformly random frames per second of each variant",
}
Block = tuple[str, str, str | Callable[..., str], str]
"""Name, page, render function, and names of its results; `name?` may be missing.

The function is a callable, or a module and a name: `bench_cores.loading`.
"""


_FOLDER = "benchmarks/results"


def _headline(result: TimedResult, many: TimedResult | None) -> str:
    return headline(result, many, picture("random_frames", TITLES["random_frames"], _FOLDER))


def _with_chart(result: TimedResult) -> str:
    chart = picture("sequential", TITLES["sequential"], f"../{_FOLDER}")
    return f"{chart}\n\n{sequential(result)}"


def _extract(result: TimedResult, memory: MemoryResult | None) -> str:
    return "\n\n".join([extracting(result), *([flat(memory)] if memory else [])])


def _printed(name: str, page: str = TABLES) -> Block:
    """Return the block of a benchmark whose page has its printed text."""
    return name, page, f"bench_{name}.BENCHMARK.text", name


BLOCKS: Sequence[Block] = (
    ("headline", README, _headline, "random_frames scaling?"),
    ("sequential", TABLES, _with_chart, "sequential"),
    *(_printed(name) for name in ("random_frames", "random_clips", "scaling", "startup")),
    *(_printed(name) for name in ("first_batch", "camera_windows", "proxy", "lerobot")),
    ("live", TABLES, "bench_live.live", "live"),
    ("soak", TABLES, "soak.soak", "soak"),
    ("measuring", TABLES, "bench_overhead.measuring", "overhead observe"),
    *(_printed(name) for name in ("predictions", "planted", "times", "compare")),
    ("cameras", TABLES, "bench_cameras.cameras", "cameras cameras_speed"),
    ("cores_loading", SCALE, "bench_cores.loading", "cores"),
    ("cores_planning", SCALE, "bench_cores.planning", "cores"),
    ("cores_scanning", SCALE, "bench_cores.scanning", "cores"),
    ("cores_reading", SCALE, "bench_cores.reading", "cores"),
    ("extract", TABLES, _extract, "extract extract_memory?"),
    _printed("features"),
    ("sizing_decoding", SCALE, "bench_plan.decoding", "sequential extract? plan"),
    ("sizing_planning", SCALE, "bench_plan.planning", "plan"),
    ("sizing_features", SCALE, "bench_plan.features", "plan"),
    _printed("remote", SCALE),
)


def main(*, check: bool = False, root: Path = ROOT, results: Path = RESULTS) -> None:
    """Write the files that differ from the results, or fail if there are any.

    Args:
        check: write nothing and fail on a difference
        root: folder of the pages
        results: folder of the results
    """
    try:
        texts = generated(root, results)
    except ValueError as error:
        sys.exit(str(error))
    stale = [p for p, text in texts.items() if not p.is_file() or p.read_text("utf-8") != text]
    if check and stale:
        names = ", ".join(path.name for path in stale)
        sys.exit(f"out of date: {names}; run: python -m benchmarks.pages")
    for path in stale:
        path.write_text(texts[path], "utf-8")
        print(path)


def generated(root: Path, results: Path) -> dict[Path, str]:
    """Return every generated file with its text, from the existing results.

    Raises:
        ValueError: a page has the markers of a result not exactly once, or a result lacks a figure
            of the README.
    """
    files = dict(_charts(results))
    texts: dict[str, str] = {}
    for name, page, draw, names in BLOCKS:
        inputs = {need: load(results, need.rstrip("?")) for need in names.split()}
        if all(result or need.endswith("?") for need, result in inputs.items()):
            if isinstance(draw, str):
                draw = resolve_name(f"benchmarks.{draw}")
            text = texts.get(page) or (root / page).read_text("utf-8")
            texts[page] = replace_block(text, name, draw(*inputs.values()))
    return files | {root / page: text for page, text in texts.items()}


def replace_block(text: str, name: str, block: str) -> str:
    """Return `text` with `block` between `<!-- benchmark:name -->` and `<!-- /benchmark -->`.

    Raises:
        ValueError: there is not exactly one pair of these markers.
    """
    opening, closing = f"<!-- benchmark:{name} -->", "<!-- /benchmark -->"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    if text.count(opening) != 1 or not pattern.search(text):
        raise ValueError(f"the page must have {opening} and {closing} exactly once")
    return pattern.sub(lambda _: f"{opening}\n{block}\n{closing}", text)


def load(results: Path, name: str) -> Any:
    """Return a result; None if missing."""
    path = results / f"{name}.json"
    if not path.is_file():
        return None
    kind = resolve_name(RECORDS.get(name, f"benchmarks.bench_{name}.BENCHMARK.result"))
    return kind.model_validate_json(path.read_text("utf-8"))


def _charts(results: Path) -> Iterator[tuple[Path, str]]:
    for name, names in (("sequential", NAMES), ("random_frames", CHARTED)):
        if result := load(results, name):
            lines = by_name(result)
            if name == "sequential":
                lines = quickest_first(lines)
            for theme in THEMES:
                text = bars(TITLES[name], lines, names, theme)
                yield results / f"{name}-{theme}.svg", text


if __name__ == "__main__":
    call(main, __doc__)
