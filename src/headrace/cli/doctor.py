"""`headrace doctor`: description of the machine, dataset check, seek check."""

import json as json_format
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.config_flags import JsonFlag, RateFlag, StreamFlag
from headrace.cli.progress import progress, waiting
from headrace.cli.sources import sources_of
from headrace.errors import ConfigError, MediaError
from headrace.profiling.number_format import count, counted
from headrace.redaction import masked

if TYPE_CHECKING:
    from headrace.loaders.lerobot.dataset_check import DatasetCheck
    from headrace.video.source import Source

_FAULTS = {
    "mismatches": ("DIFFERENT", "different"),
    "refused": ("REFUSED, though a linear read returns them", "refused"),
    "undecodable": ("damaged", "damaged"),
}
"""Field of a result → label in the line of a file, label in the summary."""
_NUM_FRAMES = 32
"""Frames compared per file by default."""
_WIDTH = 80
"""Columns."""
_MAX_SHOWN = 200
"""Max problems of a dataset in the table; JSON has all."""
_FIX = (
    "Frames differ: do not use this file unverified. headrace index --verify FILE decodes it once; "
    "later reads compare each frame with that decode and start further back where it differs. Then "
    "check again; if frames still differ, re-encode the file and report a bug."
)


def doctor(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="LeRobot dataset: its folder, or its id in the local cache. With --parity: "
            "video files, or folders of them."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Max seconds between a dataset row and its frame; by default that of LeRobot."
        ),
    ] = None,
    parity: Annotated[
        bool,
        typer.Option("--parity", help="Compare frames read by seek with those of a linear read."),
    ] = False,
    num_frames: Annotated[
        int | None,
        typer.Option(min=1, help=f"Frames to compare per file; by default {_NUM_FRAMES}."),
    ] = None,
    stream: StreamFlag = None,
    rate: RateFlag = None,
    json: JsonFlag = False,
) -> None:
    """Describe this machine; check a LeRobot dataset, or compare seeks with linear reads."""

    if parity and not files:
        raise ConfigError("doctor --parity needs video files, got none; give at least one")
    if not parity and any(given is not None for given in (stream, rate, num_frames)):
        raise ConfigError(
            "--stream, --framerate and --num-frames need --parity; add it, or leave them out"
        )
    if tolerance is not None and (parity or not files):
        raise ConfigError(
            "--tolerance needs a LeRobot dataset; give its folder or id, without --parity"
        )
    if files and parity:
        _check_parity(sources_of(files, rate=rate, stream=stream), num_frames or _NUM_FRAMES, json)
    elif files:
        if len(files) > 1:
            raise ConfigError(
                f"doctor checks one dataset, got {len(files)} paths; give one, or add --parity to "
                "compare the frames of video files"
            )
        _check_dataset(str(files[0]), tolerance, as_json=json)
    else:
        _print_machine(json)


def _print_machine(json: bool) -> None:
    import torch  # noqa: F401 - describe_machine lists GPUs only once torch is loaded

    from headrace.decode.index_store import IndexStore
    from headrace.decode.open_decoder import usable_backends
    from headrace.extras import extras
    from headrace.profiling.machine import describe_machine, versions
    from headrace.report.text import render_setup

    machine, optional, store = describe_machine(), extras(), IndexStore()
    backends = usable_backends()
    usable = [name for name, problem in backends.items() if problem is None]
    if json:
        document = {
            "machine": machine.model_dump(mode="json"),
            "versions": versions(),
            "backends": usable,
            "extras": {extra.name: extra.packages for extra in optional},
            "index_store": str(store.folder),
        }
        print(json_format.dumps(document, indent=1))
        return
    setup: dict[str, Any] = {"backends": ", ".join(usable), "index store": str(store.folder)}
    print(render_setup(machine=machine, versions=versions(), configuration=setup))
    print("Extras")
    for extra in optional:
        missing = [name for name, version in extra.packages.items() if version is None]
        state = "installed" if not missing else f"{extra.command}  (adds {', '.join(missing)})"
        print(f"  {extra.name:14} {state}")
    for name, problem in backends.items():
        if problem is not None:
            print(f"  {name:14} {problem}")
    if not machine.gpus:
        print("  GPU            none found by PyTorch: --device cuda is not available")


def _check_parity(sources: "list[Source]", num_frames: int, json: bool) -> None:
    from headrace.decode.seek_check import check_parity

    results: list[dict[str, Any]] = []
    is_bad = differs = False
    with waiting("comparing", is_quiet=json) as show:
        for index, source in enumerate(sources):
            name = masked(str(source))
            show(f"comparing {name}", index, len(sources))
            try:
                result = asdict(check_parity(source, num_frames=num_frames))
            except MediaError as error:
                result = {"source": name, "error": str(error)}
            is_bad |= "error" in result or any(result[name] for name in _FAULTS)
            differs |= any(result.get(name) for name in ("mismatches", "refused"))
            if not json:
                print(_line(result))
            results.append(result)
    print(json_format.dumps(results, indent=1) if json else _summary(results))
    if differs:
        print(_FIX, file=sys.stderr)
    if is_bad:
        raise typer.Exit(1)


def _summary(results: list[dict[str, Any]]) -> str:
    readable = [result for result in results if "error" not in result]
    kinds = {
        "equal": sum(not any(result[name] for name in _FAULTS) for result in readable),
        **{
            label: sum(bool(result[name]) for result in readable)
            for name, (_, label) in _FAULTS.items()
        },
        "cannot be read": len(results) - len(readable),
    }
    counts = ", ".join(f"{count(files)} {kind}" for kind, files in kinds.items() if files)
    frames = sum(result["compared"] for result in readable)
    return f"{counted(len(results), 'file')}: {counts}; {counted(frames, 'frame')} compared"


def _line(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{result['source']}: {result['error']}"
    faults = [
        f"{label}: {list(result[name])}" for name, (label, _) in _FAULTS.items() if result[name]
    ]
    return (
        f"{result['source']}: {result['backend']}: {result['compared']} of {result['frames']} "
        f"frames by seek and by linear read: {'; '.join(faults) or 'equal'}"
    )


def _check_dataset(root: str, tolerance: float | None, *, as_json: bool) -> None:
    """Print the problems of a dataset; exit with code 1 if there are any."""
    from headrace.loaders.lerobot.dataset_check import check_dataset

    if Path(root).is_file():
        raise ConfigError(
            f"{root} is a file; give the folder of a LeRobot dataset, or add --parity to compare "
            "the frames of a video file"
        )
    given = () if tolerance is None else (tolerance,)
    with progress(is_quiet=as_json) as show:
        check = check_dataset(root, *given, on_progress=show)
    print(
        json_format.dumps(_dataset_facts(check), indent=1, default=str)
        if as_json
        else "\n".join(_dataset_lines(check))
    )
    if check.problems:
        raise typer.Exit(1)


def _dataset_facts(check: "DatasetCheck") -> dict[str, Any]:
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


def _dataset_lines(check: "DatasetCheck") -> Iterator[str]:
    """Yield the table and its summary, at most 80 columns wide."""
    from headrace.report.text import aligned, printable

    folder, problems = check.folder, check.problems
    sizes = {"episode": len(folder.episodes), "row": len(folder), "camera": len(folder.cameras)}
    size = ", ".join(counted(number, noun) for noun, number in sizes.items())
    if not problems:
        yield printable(f"{size}: no problem in {folder.root}")
        return
    shown = problems[:_MAX_SHOWN]
    labels = [("problem", "episode"), *((p.kind, _episodes(p.episodes)) for p in shown)]
    label_width = sum(max(map(len, column)) + 2 for column in zip(*labels, strict=True))
    rows = list[tuple[str, str, str]]()
    for label, message in zip(labels, ["message", *(p.message for p in shown)], strict=True):
        text = message.replace(f" of {folder.root}", "").replace(f"{folder.root}/", "")
        first, *more = wrap(text, _WIDTH - label_width, break_on_hyphens=False)
        rows += [(*label, first), *(("", "", line) for line in more)]
    yield from (printable(line.removeprefix("  ")) for line in aligned(rows))
    if len(problems) > _MAX_SHOWN:
        yield f"and {count(len(problems) - _MAX_SHOWN)} more, which --json lists"
    by_kind = Counter(problem.kind for problem in problems)
    kinds = ", ".join(f"{count(number)} {kind}" for kind, number in by_kind.items())
    bad = len({episode for problem in problems for episode in problem.episodes})
    yield from wrap(
        f"{size}: {counted(len(problems), 'problem')} ({kinds}) in {counted(bad, 'episode')}. Skip "
        "these episodes with episodes=[...], or their items with on_error='skip'",
        _WIDTH,
    )


def _episodes(numbers: tuple[int, ...]) -> str:
    """Return a short text for episode numbers: `3`, `3-7`, `3 + 4 more`."""
    if len(numbers) < 2:
        return "".join(map(str, numbers)) or "-"
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:
        return f"{first}-{last}"
    return f"{first} + {len(numbers) - 1} more"
