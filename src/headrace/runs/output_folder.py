"""Output folder of a run: its checks, and the closing of its sinks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.atomic_file import partial_of
from headrace.config_fields import Option
from headrace.errors import ConfigError, HeadraceError, file_errors
from headrace.profiling import trace
from headrace.sinks import annotated as annotated_images
from headrace.sinks import coco
from headrace.sinks.annotated import annotated_names
from headrace.sinks.batch_results import ResultSink
from headrace.sinks.custom_sink import open_custom_sinks
from headrace.sinks.result_rows import TABLES
from headrace.video.source import refuse_address

HEAD: Final = "head.pt"
"""File of a trained head."""
_PARTIAL_FILES: Final = (*coco.PARTS, *TABLES, trace.NAME, HEAD)
"""Files that have a temporary name while they are written."""


def check_out(folder: Path) -> None:
    """Raise ConfigError if the path of an output folder is a file or an address."""
    refuse_address(folder, is_output=True)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"cannot write to {folder}: it is not a folder; give another one")


OUT_OPTION: Final = Option("Output folder.", check=check_out)


def prepare_folder(folder: Path, *sources: Path) -> None:
    """Make the output folder, check that it is writable, and remove partial files of killed runs.

    Raises:
        ConfigError: the folder cannot be written, or an annotated video would replace a source.
    """
    refuse_address(folder, is_output=True)
    probe = folder / ".headrace-write-test"
    with file_errors(f"cannot write to the output folder {folder}", "give another one with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        _remove_partial_files(folder)
        # Several sources, and changes of their size, produce several annotated videos.
        [name] = map(Path, annotated_names(1))
        annotated = list(folder.glob(f"{name.stem}*{name.suffix}"))
        replaced = [
            path
            for path in sources
            if path.exists() and any(video.samefile(path) for video in annotated)
        ]
    if replaced:
        raise ConfigError(
            f"an annotated video would replace its source {replaced[0]}; "
            "give another folder with --out"
        )


def _remove_partial_files(folder: Path) -> None:
    images = folder / annotated_images.FOLDER
    for path in (
        *(partial_of(folder / name) for name in _PARTIAL_FILES),
        *images.rglob(partial_of(Path("*")).name),
        *folder.glob(partial_of(Path("annotated*.mp4")).name),
    ):
        path.unlink(missing_ok=True)


@contextmanager
def open_sinks(
    sinks: Sequence[ResultSink], on_failure: Callable[[HeadraceError], object] | None = None
) -> Iterator[None]:
    """Open custom sinks, and close all sinks at the end.

    Args:
        sinks: Sinks of the run.
        on_failure: Receives the failures to close; None: the first one is raised.
    """
    failures: list[HeadraceError] = []
    try:
        open_custom_sinks(sinks)
        yield
    finally:
        for sink in sinks:
            try:
                sink.close()
            except HeadraceError as failure:
                (on_failure or failures.append)(failure)
    if failures:
        raise failures[0]
