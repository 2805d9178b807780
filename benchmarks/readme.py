"""Puts the results into the README, between the markers of each benchmark.

python -m benchmarks.readme            write README.md and the charts
python -m benchmarks.readme --check    fail when they are not what the results say
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.camera_tables import cameras
from benchmarks.chart import THEMES, sequential_chart
from benchmarks.record import (
    RESULTS,
    ROOT,
    RandomResult,
    ScalingResult,
    SequentialResult,
    StartupResult,
)
from benchmarks.scaling_tables import scaling
from headrace.experiments.cameras import CamerasRecord

PICTURE = """<picture>
<source media="(prefers-color-scheme: dark)" srcset="benchmarks/results/sequential-dark.svg">
<img alt="Frames per second of each library" src="benchmarks/results/sequential-light.svg">
</picture>"""


def main(words: Sequence[str] | None = None) -> None:
    """Write what differs, or fail on it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(words)
    try:
        wanted = generated(options.readme, options.results)
    except ValueError as err:
        sys.exit(str(err))
    stale = [path for path, text in wanted.items() if _current(path) != text]
    if options.check and stale:
        names = ", ".join(path.name for path in stale)
        sys.exit(f"not what the results say: {names}; run: python -m benchmarks.readme")
    for path in stale:
        path.write_text(wanted[path], "utf-8")
        print(path)


def generated(readme: Path, results: Path) -> dict[Path, str]:
    """Every generated file and its text, from the results there are.

    Raises:
        ValueError: the README lacks the markers of a result, or has them twice.
    """
    files: dict[Path, str] = {}
    text = readme.read_text("utf-8")
    if (path := results / "sequential.json").is_file():
        sequential = SequentialResult.load(path)
        for theme in THEMES:
            chart = sequential_chart(sequential, theme)
            files[results / f"sequential-{theme}.svg"] = chart
        block = "\n\n".join([PICTURE, tables.sequential(sequential)])
        text = replace_block(text, "sequential", block)
    if (path := results / "startup.json").is_file():
        text = replace_block(text, "startup", tables.startup(StartupResult.load(path)))
    for name in ("random_frames", "random_clips"):
        if (path := results / f"{name}.json").is_file():
            text = replace_block(text, name, tables.random_access(RandomResult.load(path)))
    if (path := results / "scaling.json").is_file():
        text = replace_block(text, "scaling", scaling(ScalingResult.load(path)))
    grid, speed = results / "cameras.json", results / "cameras_speed.json"
    if grid.is_file() and speed.is_file():
        records = [CamerasRecord.model_validate_json(path.read_bytes()) for path in (grid, speed)]
        text = replace_block(text, "cameras", cameras(*records))
    files[readme] = text
    return files


def replace_block(text: str, name: str, block: str) -> str:
    """`text` with `block` between `<!-- benchmark:name -->` and the next `<!-- /benchmark -->`.

    Raises:
        ValueError: there is not exactly one such pair.
    """
    opening, closing = f"<!-- benchmark:{name} -->", "<!-- /benchmark -->"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    if text.count(opening) != 1 or not pattern.search(text):
        raise ValueError(f"the README must have {opening} and {closing} exactly once")
    return pattern.sub(lambda _: f"{opening}\n{block}\n{closing}", text)


def _current(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


if __name__ == "__main__":
    main()
