"""The journal of an output folder: what was asked, and which chunks are done.

A chunk is done when its entry lies in the journal and all files that it names lie in the folder, as
large as it says. Entries are written after their files, whole or not at all; so whatever ends a
run at whatever moment, a chunk is done or is not. What there is of one that is not is noted now
and then, so that little is done twice.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from headrace.atomic_file import partial_of, write_whole
from headrace.errors import ConfigError, file_errors, reason_of
from headrace.extraction.extraction_options import OutputSpec
from headrace.profiling.machine import decoder_version
from headrace.records import from_dict, recorded, to_dict
from headrace.runtime.posix import file_lock
from headrace.video.find_videos import OUTPUT_HOME
from headrace.video.source import refuse_address

RETRY: Final = "--retry tries it again"
"""What is said of a chunk that an earlier run gave up."""


@dataclass(frozen=True, kw_only=True)
class Fallen:
    """Why a chunk is in quarantine."""

    reason: str
    decoder: str
    """Version of the decoder that ended with it."""


@dataclass(frozen=True)
class DeadLetters:
    """The chunks of one output folder that ended two workers each, with the reason.

    It holds for one version of the decoder: another one may not crash of the same file. Written by
    the run that has the folder, and read by it.
    """

    path: Path
    """The file, in the journal."""
    decoder: str
    """Version of what decodes now."""

    def standing(self, *, retry: bool) -> dict[str, str]:
        """Return name of a chunk → why it is left out; forget the others.

        Args:
            retry: Leave none out.

        Raises:
            ConfigError: the file cannot be written.
        """
        known = self.known()
        kept = {
            chunk: fallen
            for chunk, fallen in known.items()
            if not retry and fallen.decoder == self.decoder
        }
        if kept != known:
            self._write(kept)
        return {chunk: f"{fallen.reason}; {RETRY}" for chunk, fallen in kept.items()}

    def add(self, chunk: str, reason: str) -> None:
        """Leave a chunk out from now on.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._write({**self.known(), chunk: Fallen(reason=reason, decoder=self.decoder)})

    def known(self) -> dict[str, Fallen]:
        """Return name of a chunk → why it is in quarantine; nothing where the file cannot be read,
        which costs tries only."""
        try:
            plain = json.loads(self.path.read_text(encoding="utf-8"))
            return from_dict(dict[str, Fallen], plain, file=self.path)
        except (OSError, ValueError):
            return {}

    def _write(self, chunks: Mapping[str, Fallen]) -> None:
        plain = {chunk: to_dict(fallen) for chunk, fallen in chunks.items()}
        write_whole(self.path, json.dumps(plain, indent=1) + "\n")


HOME: Final = OUTPUT_HOME
"""The folder of the journal, in the output folder."""
_TOLD: Final = "told"
_PARTIALS: Final = partial_of(Path("*")).name


class Lost(NamedTuple):
    """A frame, or sample, that was wanted and did not come."""

    index: int  # type: ignore[assignment]  # it hides a method of tuples
    """Of the frame, or of the first of a clip."""
    cause: str


@recorded
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one chunk, as every kind of extraction counts it."""

    came: int
    """Pictures, features or frames."""
    lost: tuple[Lost, ...] = ()
    concealed: tuple[int, ...] = ()
    """Indices of frames that are damaged, and came as FFmpeg shows them."""


@recorded
@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """What became of one chunk."""

    files: tuple[tuple[str, int], ...]
    """Name and bytes of each file in the output folder."""
    facts: Any
    """What else there is to know: plain values, as JSON has them."""


class Journal:
    """The journal of one output folder. Any process may write entries; one at a time runs."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or made yet."""
        self.folder = folder
        self._home = folder / HOME
        self._request = self._home / "request.json"
        self._entries = self._home / "chunks"

    def before(self) -> OutputSpec | None:
        """Return what was asked of the folder before; None where it is new or empty.

        Raises:
            ConfigError: it holds something else, or its journal cannot be read.
        """
        try:
            return self.request()
        except (FileNotFoundError, NotADirectoryError):
            self._check_empty()
            return None
        except (OSError, ValueError) as error:
            is_ours = isinstance(error, ConfigError)
            fault = error if is_ours else f"cannot read {self._request}: {error}"
            raise ConfigError(
                f"{fault}; give another folder with -o, or delete {self.folder}"
            ) from error

    def check(self, request: OutputSpec) -> None:
        """Do nothing if the folder is new, or was begun for this request.

        Raises:
            ConfigError: it was begun for another, or holds something else; says what differs.
        """
        refuse_address(self.folder, is_output=True)
        before = self.before()
        differences = [] if before is None else list(request.differences(before))
        if differences:
            raise ConfigError(
                f"{self.folder} holds another extraction: {'; '.join(differences)}; give another "
                "folder with -o, or ask for the same to go on with it"
            )

    @contextmanager
    def held(self, request: OutputSpec) -> Iterator[None]:
        """Keep the folder for this run, and note what is asked of it.

        Raises:
            ConfigError: another run has it, it holds another extraction, or cannot be written.
        """
        self.check(request)
        with ExitStack() as kept:
            with self._writing():
                self._entries.mkdir(parents=True, exist_ok=True)
                is_ours = kept.enter_context(file_lock(self._home / "run.lock"))
                if is_ours:
                    # Workers of a run that was killed end as soon as they have something to say.
                    with file_lock(self._home / "workers.lock", waits=True):
                        self._sweep()
            if not is_ours:
                raise ConfigError(
                    f"another run is writing to {self.folder}; wait until it is done, or give "
                    "another folder with -o"
                )
            self.check(request)  # another run may have begun it meanwhile
            write_whole(self._request, request.text())
            yield

    @contextmanager
    def as_worker(self) -> Iterator[None]:
        """Be known as a worker: no other run begins before this block has ended."""
        with file_lock(self._home / "workers.lock", is_shared=True, waits=True):
            yield

    def request(self) -> OutputSpec:
        """Return what is asked of the folder that this run has.

        Raises:
            OSError, ValueError: it cannot be read.
        """
        return OutputSpec.parse(self._request.read_text(encoding="utf-8"), self._request)

    def write(self, chunk: str, entry: JournalEntry) -> None:
        """Note that a chunk is done; its files lie there already.

        Raises:
            ConfigError: it cannot be written.
        """
        write_whole(self._entry(chunk), json.dumps(to_dict(entry)))
        with suppress(OSError):
            self._entry(_begun(chunk)).unlink()

    def note(self, chunk: str, entry: JournalEntry) -> None:
        """Note what there is of a chunk that is not done; its files lie there already.

        Raises:
            ConfigError: it cannot be written.
        """
        self.write(_begun(chunk), entry)

    def noted(self, chunks: Iterable[str]) -> dict[str, JournalEntry]:
        """Return what was noted of chunks that are not done, where all of it is there."""
        found = {chunk: self._read(_begun(chunk)) for chunk in chunks}
        return {chunk: entry for chunk, entry in found.items() if entry is not None}

    def done(self, chunks: Iterable[str]) -> dict[str, JournalEntry]:
        """Return the entries of those chunks that are done. Asks for the size of every file."""
        found = {chunk: self._read(chunk) for chunk in chunks}
        return {chunk: entry for chunk, entry in found.items() if entry is not None}

    def forget(self, chunk: str) -> None:
        """Remove the entry of a chunk and its files; then it is not done.

        Raises:
            ConfigError: they cannot be removed.
        """
        entry = self._read(chunk)
        with self._writing():
            for name, _ in entry.files if entry else ():
                (self.folder / name).unlink(missing_ok=True)
            self._entry(chunk).unlink(missing_ok=True)

    def quarantine(self) -> DeadLetters:
        """Return the chunks that earlier runs gave up, for what decodes now."""
        return DeadLetters(self._home / "quarantine.json", decoder_version())

    def claims(self) -> Path:
        """Return the folder in which workers of this run claim chunks.

        Raises:
            ConfigError: it cannot be made.
        """
        claims = self._home / "claims"
        with self._writing():
            claims.mkdir(exist_ok=True)
        return claims

    @contextmanager
    def telling(self, text: str) -> Iterator[None]:
        """Leave a text for the workers of this run, which nobody else may read: see `told`.

        Raises:
            ConfigError: it cannot be written.
        """
        path = self._home / _TOLD
        with self._writing():
            path.unlink(missing_ok=True)
            number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()

    def told(self) -> str:
        """Return the text that the run left for its workers."""
        return (self._home / _TOLD).read_text(encoding="utf-8", errors="surrogateescape")

    def _read(self, chunk: str) -> JournalEntry | None:
        try:
            file = self._entry(chunk)
            entry = from_dict(JournalEntry, json.loads(file.read_text(encoding="utf-8")), file=file)
            sizes = ((self.folder / name).stat().st_size == size for name, size in entry.files)
            return entry if all(sizes) else None
        except (OSError, ValueError):
            return None

    def _entry(self, chunk: str) -> Path:
        return self._entries / f"{chunk}.json"

    def _writing(self) -> AbstractContextManager[None]:
        return file_errors(f"cannot write to {self.folder}", "give another folder with -o")

    def _check_empty(self) -> None:
        try:
            found = sorted(path.name for path in self.folder.iterdir() if path.name != HOME)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"cannot use {self.folder} as a folder: {reason_of(error)}; "
                "give another one with -o"
            ) from error
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            raise ConfigError(
                f"{self.folder} holds something else ({found[0]}{more}); give a new or an empty "
                "folder with -o"
            )

    def _sweep(self) -> None:
        """Remove what was being written when a process was killed."""
        for folder in (self.folder, *(each for each in self._home.glob("**/") if each.is_dir())):
            for path in folder.glob(_PARTIALS):
                with suppress(FileNotFoundError):
                    path.unlink()


def _begun(chunk: str) -> str:
    return f"{chunk}.begun"
