"""Where the results of a run go: its folder, proved to be writable, and sinks that end with it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.atomic_file import partial_of
from headrace.config_fields import Option
from headrace.errors import ConfigError, HeadraceError, file_errors
from headrace.profiling import trace
from headrace.sinks import annotated as annotated_pictures
from headrace.sinks import box_table, coco, prediction_table
from headrace.sinks.annotated import annotated_names
from headrace.sinks.batch_results import SinkOf
from headrace.sinks.own_sink import open_own
from headrace.video.source import refuse_address

HEAD: Final = "head.pt"
"""What a run that trains keeps."""
_BEGUN: Final = (*coco.PARTS, box_table.NAME, prediction_table.NAME, trace.NAME, HEAD)
"""Files that lie under another name while they are written."""


def check_out(folder: Path) -> None:
    """Raise ConfigError where something else lies in the place of a folder of results."""
    refuse_address(folder, is_output=True)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"cannot write to {folder}: it is no folder; give another one")


OUT_OPTION: Final = Option("Folder of the results.", check=check_out)


def claim(folder: Path, *sources: Path) -> None:
    """Make the folder of the results; prove that it can be written to, and not over a source.

    What a run that was killed had begun to write there is removed.

    Raises:
        ConfigError: it cannot be written, or an annotated video would replace a source.
    """
    refuse_address(folder, is_output=True)
    probe = folder / ".headrace-write-test"
    with file_errors(f"cannot write to the output folder {folder}", "give another one with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        _remove_begun(folder)
        # Of several sources, and where their size changes, more than one is written.
        [name] = map(Path, annotated_names(1))
        own = list(folder.glob(f"{name.stem}*{name.suffix}"))
        lost = [path for path in sources if any(_is_same(video, path) for video in own)]
    if lost:
        raise ConfigError(
            f"an annotated video would replace its source {lost[0]}; give another folder with --out"
        )


def _remove_begun(folder: Path) -> None:
    pictures = folder / annotated_pictures.FOLDER
    for path in (
        *(partial_of(folder / name) for name in _BEGUN),
        *pictures.rglob(partial_of(Path("*")).name),
        *folder.glob(partial_of(Path("annotated*.mp4")).name),
    ):
        path.unlink(missing_ok=True)


def _is_same(video: Path, source: Path) -> bool:
    return source.exists() and video.samefile(source)


@contextmanager
def finishing(sinks: Sequence[SinkOf[Any]]) -> Iterator[None]:
    """Open the user's own sinks, close all at the end; what went wrong first is what is raised."""
    failures: list[HeadraceError] = []
    try:
        open_own(sinks)
        yield
    finally:
        for sink in sinks:
            try:
                sink.close()
            except HeadraceError as failure:
                failures.append(failure)
    if failures:
        raise failures[0]
