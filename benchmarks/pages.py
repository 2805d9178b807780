"""Puts the results into README.md and pages of docs/, between the markers of each.

python -m benchmarks.pages            write the pages and the charts
python -m benchmarks.pages --check    fail when they are not what the results say
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import bench_cores, bench_plan, chart
from benchmarks.bench_before import BeforeResult
from benchmarks.bench_camera_windows import camera_windows
from benchmarks.bench_cameras import cameras
from benchmarks.bench_correlation import CorrelationResult
from benchmarks.bench_extract import extracting
from benchmarks.bench_extract_memory import MemoryResult, flat
from benchmarks.bench_features import FeaturesResult, features
from benchmarks.bench_first_batch import first_batch
from benchmarks.bench_live import LiveResult, live
from benchmarks.bench_overhead import OverheadResult, measuring
from benchmarks.bench_predictions import PredictionsResult, predictions
from benchmarks.bench_proxy import ProxyResult, proxied
from benchmarks.bench_random_frames import CHARTED, headline, random_access
from benchmarks.bench_remote import RemoteResult, remote
from benchmarks.bench_scaling import scaling
from benchmarks.bench_sequential import NAMES, sequential
from benchmarks.bench_startup import startup
from benchmarks.comparison import by_name, quickest_first
from benchmarks.conformance.verdict import ConformanceResult, DrawsResult
from benchmarks.live.soak_summary import SoakResult, soak
from benchmarks.record import RESULTS, Row, TimedResult
from benchmarks.worker import ROOT
from headrace.bench.cameras import CamerasRecord

README, TABLES, SCALE = "README.md", "docs/benchmarks.md", "docs/scale.md"
RECORDS: Mapping[str, type[Any]] = {
    "before": BeforeResult,
    "cameras": CamerasRecord,
    "cameras_speed": CamerasRecord,
    "conformance": ConformanceResult,
    "cores": bench_cores.CoresResult,
    "correlation": CorrelationResult,
    "draws": DrawsResult,
    "extract_memory": MemoryResult,
    "features": FeaturesResult,
    "live": LiveResult,
    "overhead": OverheadResult,
    "plan": bench_plan.PlanResult,
    "predictions": PredictionsResult,
    "proxy": ProxyResult,
    "remote": RemoteResult,
    "soak": SoakResult,
}
"""Name of a result → its type; of the others it is `TimedResult`."""
TITLES = {
    "sequential": "Frames per second of each library, every frame in order",
    "random_frames": "Frames per second of each way to uniformly random frames",
}
Block = tuple[str, str, Callable[..., str], tuple[str, ...]]
"""Name, page, what draws it, and the results it is given: `name?` is None where it is missing."""


def _with_chart(result: TimedResult) -> str:
    shown = chart.picture("sequential", TITLES["sequential"], f"../{_FOLDER}")
    return f"{shown}\n\n{sequential(result)}"


def _headline(result: TimedResult, many: TimedResult | None) -> str:
    shown = chart.picture("random_frames", TITLES["random_frames"], _FOLDER)
    return headline(result, many, shown)


def _extract(result: TimedResult, memory: MemoryResult | None) -> str:
    return "\n\n".join([extracting(result), *([flat(memory)] if memory else [])])


def _decoding(found: TimedResult, _: object, extract: TimedResult | None) -> str:
    return bench_plan.decoding(found, extract)


_FOLDER = "benchmarks/results"
BLOCKS: Sequence[Block] = (
    ("headline", README, _headline, ("random_frames", "scaling?")),
    ("sequential", TABLES, _with_chart, ("sequential",)),
    ("random_frames", TABLES, random_access, ("random_frames",)),
    ("random_clips", TABLES, random_access, ("random_clips",)),
    ("scaling", TABLES, scaling, ("scaling",)),
    ("startup", TABLES, startup, ("startup",)),
    ("first_batch", TABLES, first_batch, ("first_batch",)),
    ("camera_windows", TABLES, camera_windows, ("camera_windows",)),
    ("proxy", TABLES, proxied, ("proxy",)),
    ("live", TABLES, live, ("live",)),
    ("soak", TABLES, soak, ("soak",)),
    ("measuring", TABLES, measuring, ("overhead", "observe")),
    ("predictions", TABLES, predictions, ("predictions",)),
    ("cameras", TABLES, cameras, ("cameras", "cameras_speed")),
    ("cores_loading", SCALE, bench_cores.loading, ("cores",)),
    ("cores_planning", SCALE, bench_cores.planning, ("cores",)),
    ("cores_scanning", SCALE, bench_cores.scanning, ("cores",)),
    ("cores_reading", SCALE, bench_cores.reading, ("cores",)),
    ("extract", TABLES, _extract, ("extract", "extract_memory?")),
    ("features", TABLES, features, ("features",)),
    ("sizing_decoding", SCALE, _decoding, ("sequential", "plan", "extract?")),
    ("sizing_planning", SCALE, bench_plan.planning, ("plan",)),
    ("sizing_features", SCALE, lambda _: bench_plan.features(), ("plan",)),
    ("remote", SCALE, remote, ("remote",)),
)


def main(words: Sequence[str] | None = None) -> None:
    """Write what differs, or fail on it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the pages")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(words)
    try:
        wanted = generated(options.root, options.results)
    except ValueError as error:
        sys.exit(str(error))
    stale = [path for path, text in wanted.items() if _current(path) != text]
    if options.check and stale:
        names = ", ".join(path.name for path in stale)
        sys.exit(f"not what the results say: {names}; run: python -m benchmarks.pages")
    for path in stale:
        path.write_text(wanted[path], "utf-8")
        print(path)


def generated(root: Path, results: Path) -> dict[Path, str]:
    """Every generated file and its text, from the results there are.

    Raises:
        ValueError: a page lacks the markers of a result, or has them twice; or a result lacks
            what the README tells of.
    """
    files = dict(_charts(results))
    texts: dict[str, str] = {}
    for name, page, draw, needed in BLOCKS:
        found = [load(results, each.rstrip("?")) for each in needed]
        if all(each or need.endswith("?") for each, need in zip(found, needed, strict=True)):
            text = texts.get(page) or (root / page).read_text("utf-8")
            texts[page] = replace_block(text, name, draw(*found))
    return files | {root / page: text for page, text in texts.items()}


def replace_block(text: str, name: str, block: str) -> str:
    """`text` with `block` between `<!-- benchmark:name -->` and the next `<!-- /benchmark -->`.

    Raises:
        ValueError: there is not exactly one such pair.
    """
    opening, closing = f"<!-- benchmark:{name} -->", "<!-- /benchmark -->"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    if text.count(opening) != 1 or not pattern.search(text):
        raise ValueError(f"the page must have {opening} and {closing} exactly once")
    return pattern.sub(lambda _: f"{opening}\n{block}\n{closing}", text)


def load(results: Path, name: str) -> Any:
    """Return a result; None where there is none."""
    path = results / f"{name}.json"
    kind = RECORDS.get(name, TimedResult)
    return kind.model_validate_json(path.read_text("utf-8")) if path.is_file() else None


def _charts(results: Path) -> Iterator[tuple[Path, str]]:
    for name, names in (("sequential", NAMES), ("random_frames", CHARTED)):
        if found := load(results, name):
            lines = by_name(found)
            if name == "sequential":
                lines = quickest_first(lines)
            yield from _themes(results / name, TITLES[name], lines, names)


def _themes(
    path: Path, title: str, lines: Sequence[Sequence[Row]], names: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    for theme in chart.THEMES:
        text = chart.bars(title, lines, names, theme)
        yield path.with_name(f"{path.name}-{theme}.svg"), text


def _current(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


if __name__ == "__main__":
    main()
