"""Where the results of a run go: its folder, proved to be writable, and sinks that end with it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import ConfigError
from headrace.sinks.seen import Sink


def claim(folder: Path, names: Iterable[str] = (), sources: Sequence[Path] = ()) -> None:
    """Make the folder of the results; prove that it can be written to, and not over a source.

    Args:
        folder: Where results go.
        names: Of the files that will be written there.
        sources: What is read.

    Raises:
        ConfigError: it cannot be written, or an annotated video would replace a source.
    """
    probe = folder / ".headrace-write-test"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        existing = [folder / name for name in names if (folder / name).exists()]
        replaced = [source for source in sources if any(map(source.samefile, existing))]
    except OSError as error:
        raise ConfigError(
            f"cannot write to the output folder {folder}: {(error.strerror or str(error)).lower()};"
            " give another one with --out"
        ) from error
    if replaced:
        raise ConfigError(
            f"the annotated video would replace its source {replaced[0]}; "
            "give another folder with --out"
        )


@contextmanager
def finishing(sinks: Sequence[Sink]) -> Iterator[None]:
    """Close all sinks at the end, whatever it is; what went wrong first is what is raised."""
    try:
        yield
    except BaseException:
        for sink in sinks:
            with suppress(ConfigError):
                sink.close()
        raise
    for sink in sinks:
        sink.close()
