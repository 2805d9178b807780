"""`headrace doctor DATASET`: a table of what is wrong with a LeRobot dataset."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.progress import progress

if TYPE_CHECKING:
    from headrace.loaders.lerobot.dataset_check import DatasetCheck

_WIDTH = 80
_MAX_SHOWN = 200
"""Problems in the table; JSON has all."""


def doctor_dataset(root: str, tolerance: float, *, as_json: bool) -> None:
    """Print the problems of a dataset; exit with 1 if there are any."""
    from headrace.errors import ConfigError
    from headrace.loaders.lerobot.dataset_check import check_dataset

    if Path(root).is_file():
        raise ConfigError(
            f"{root} is a file: doctor checks the folder of a LeRobot dataset, and, with --parity, "
            "the frames of files"
        )
    with progress(is_quiet=as_json) as show:
        check = check_dataset(root, tolerance, on_progress=show)
    print(
        json.dumps(_record(check), indent=1, default=str) if as_json else "\n".join(_lines(check))
    )
    if check.problems:
        raise typer.Exit(1)


def _record(check: "DatasetCheck") -> dict[str, Any]:
    folder = check.folder
    return {
        "dataset": str(folder.root),
        "version": folder.info["codebase_version"],
        "episodes": len(folder.episodes),
        "rows": len(folder),
        "cameras": [camera.key for camera in folder.cameras],
        "tolerance_seconds": check.tolerance_seconds,
        "problems": [asdict(problem) for problem in check.problems],
    }


def _lines(check: "DatasetCheck") -> Iterator[str]:
    """Yield the table, and what it comes to; at most 80 columns."""
    from headrace.profiling.number_format import count, counted
    from headrace.report.text import aligned, printable

    folder, problems = check.folder, check.problems
    sizes = {"episode": len(folder.episodes), "row": len(folder), "camera": len(folder.cameras)}
    size = ", ".join(counted(number, noun) for noun, number in sizes.items())
    if not problems:
        yield printable(f"{size}: no problem in {folder.root}")
        return
    shown = problems[:_MAX_SHOWN]
    heads = [("problem", "episode"), *((p.kind, _episodes(p.episodes)) for p in shown)]
    left = sum(max(map(len, column)) + 2 for column in zip(*heads, strict=True))
    rows = list[tuple[str, str, str]]()
    for head, cell in zip(heads, ["what", *(p.message for p in shown)], strict=True):
        text = cell.replace(f" of {folder.root}", "").replace(f"{folder.root}/", "")
        first, *more = wrap(text, _WIDTH - left, break_on_hyphens=False)
        rows += [(*head, first), *(("", "", line) for line in more)]
    yield from (printable(line.removeprefix("  ")) for line in aligned(rows))
    if len(problems) > _MAX_SHOWN:
        yield f"and {count(len(problems) - _MAX_SHOWN)} more, which --json lists"
    of_kinds = Counter(problem.kind for problem in problems)
    kinds = ", ".join(f"{count(number)} {kind}" for kind, number in of_kinds.items())
    bad = len({episode for problem in problems for episode in problem.episodes})
    yield from wrap(
        f"{size}: {counted(len(problems), 'problem')} ({kinds}); {counted(bad, 'episode')} with "
        "some. Leave these out with episodes=[...], or their items with on_error='skip'",
        _WIDTH,
    )


def _episodes(numbers: tuple[int, ...]) -> str:
    """Return episodes in short: `3`, `3-7`, `3 + 4 more`."""
    if len(numbers) < 2:
        return "".join(map(str, numbers)) or "-"
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:
        return f"{first}-{last}"
    return f"{first} + {len(numbers) - 1} more"
