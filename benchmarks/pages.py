"""Puts the results into README.md and pages of docs/, between the markers of each.

python -m benchmarks.pages            write the pages and the charts
python -m benchmarks.pages --check    fail when they are not what the results say
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import chart
from benchmarks.bench_extract_memory import MemoryResult
from benchmarks.bench_features import FeaturesResult
from benchmarks.bench_overhead import OverheadResult
from benchmarks.bench_plan import PlanResult
from benchmarks.bench_predictions import PredictionsResult
from benchmarks.bench_proxy import ProxyResult
from benchmarks.bench_remote import RemoteResult
from benchmarks.cores.record import CoresResult
from benchmarks.live.record import LiveResult
from benchmarks.live.soaked import SoakResult
from benchmarks.record import RESULTS, ROOT, Row, TimedResult
from benchmarks.tables import compared, cores, sizing
from benchmarks.tables.camera_windows import camera_windows
from benchmarks.tables.cameras import cameras
from benchmarks.tables.extracting import extracting
from benchmarks.tables.features import features
from benchmarks.tables.first_batch import first_batch
from benchmarks.tables.headline import SHOWN, headline
from benchmarks.tables.live import live
from benchmarks.tables.measuring import measuring, predictions
from benchmarks.tables.proxied import proxied
from benchmarks.tables.remote import remote
from benchmarks.tables.scaling import scaling
from benchmarks.tables.soak import soak
from benchmarks.tables.startup import startup
from headrace.bench.cameras import CamerasRecord

README, TABLES, SCALE = "README.md", "docs/benchmarks.md", "docs/scale.md"
PAGES = {
    "headline": README,
    "sizing_decoding": SCALE,
    "sizing_planning": SCALE,
    "sizing_features": SCALE,
    "remote": SCALE,
    "cores_loading": SCALE,
    "cores_planning": SCALE,
    "cores_scanning": SCALE,
    "cores_reading": SCALE,
}
"""Name of a block → its page; the others stand in `TABLES`."""
TITLES = {
    "sequential": "Frames per second of each library, every frame in order",
    "random_frames": "Frames per second of each way to uniformly random frames",
}


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
    for name, block in _blocks(results):
        page = PAGES.get(name, TABLES)
        text = texts.get(page) or (root / page).read_text("utf-8")
        texts[page] = replace_block(text, name, block)
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


def _blocks(results: Path) -> Iterator[tuple[str, str]]:
    """Name and Markdown of each result there is."""
    if found := _timed(results, "random_frames"):
        shown = chart.picture("random_frames", TITLES["random_frames"], "benchmarks/results")
        yield "headline", headline(found, _timed(results, "scaling"), shown)
    if found := _timed(results, "sequential"):
        shown = chart.picture("sequential", TITLES["sequential"], "../benchmarks/results")
        yield "sequential", f"{shown}\n\n{compared.sequential(found)}"
    for name in ("random_frames", "random_clips"):
        if found := _timed(results, name):
            yield name, compared.random_access(found)
    for name, render in (
        ("scaling", scaling),
        ("startup", startup),
        ("first_batch", first_batch),
        ("camera_windows", camera_windows),
    ):
        if found := _timed(results, name):
            yield name, render(found)
    if (path := results / "proxy.json").is_file():
        yield "proxy", proxied(ProxyResult.load(path))
    if (path := results / "live.json").is_file():
        yield "live", live(LiveResult.load(path))
    if (path := results / "soak.json").is_file():
        yield "soak", soak(SoakResult.load(path))
    if (path := results / "overhead.json").is_file() and (seen := _timed(results, "observe")):
        yield "measuring", measuring(OverheadResult.load(path), seen)
    if (path := results / "predictions.json").is_file():
        yield "predictions", predictions(PredictionsResult.load(path))
    grid, speed = results / "cameras.json", results / "cameras_speed.json"
    if grid.is_file() and speed.is_file():
        records = [CamerasRecord.model_validate_json(path.read_bytes()) for path in (grid, speed)]
        yield "cameras", cameras(*records)
    if (path := results / "cores.json").is_file():
        for part in (cores.loading, cores.planning, cores.scanning, cores.reading):
            yield f"cores_{part.__name__}", part(CoresResult.load(path))
    yield from _extraction(results)


def _extraction(results: Path) -> Iterator[tuple[str, str]]:
    """What tells of extraction, and of what it would take at scale."""
    extract, flat = _timed(results, "extract"), results / "extract_memory.json"
    if extract:
        yield "extract", extracting(extract, MemoryResult.load(flat) if flat.is_file() else None)
    if (path := results / "features.json").is_file():
        yield "features", features(FeaturesResult.load(path))
    sequential = _timed(results, "sequential")
    if (path := results / "plan.json").is_file() and sequential:
        yield "sizing_decoding", sizing.decoding(sequential, extract)
        yield "sizing_planning", sizing.planning(PlanResult.load(path))
        yield "sizing_features", sizing.features()
    if (path := results / "remote.json").is_file():
        yield "remote", remote(RemoteResult.load(path))


def _charts(results: Path) -> Iterator[tuple[Path, str]]:
    for name, names in (("sequential", compared.LIBRARIES), ("random_frames", SHOWN)):
        if found := _timed(results, name):
            lines = compared.by_name(found)
            if name == "sequential":
                lines = compared.quickest_first(lines)
            yield from _themes(results / name, TITLES[name], lines, names)


def _themes(
    path: Path, title: str, lines: Sequence[Sequence[Row]], names: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    for theme in chart.THEMES:
        text = chart.bars(title, lines, names, theme)
        yield path.with_name(f"{path.name}-{theme}.svg"), text


def _timed(results: Path, name: str) -> TimedResult | None:
    path = results / f"{name}.json"
    return TimedResult.load(path) if path.is_file() else None


def _current(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


if __name__ == "__main__":
    main()
