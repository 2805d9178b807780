"""Journal of an output folder: the request, and the finished chunks.

A chunk is finished when its entry exists and all files it names exist with their recorded sizes.
Entries are written after their files, atomically, so a run that ends at any time leaves each chunk
either finished or unfinished. Partial output of an unfinished chunk is recorded from time to time,
so that little work is repeated.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from headrace.atomic_file import partial_of, write_whole
from headrace.errors import ConfigError, HeadraceError, file_errors, in_words, reason_of
from headrace.extraction.extraction_options import OutputSpec
from headrace.profiling.machine import decoder_version
from headrace.records import from_dict, recorded, to_dict
from headrace.runtime.posix import file_lock
from headrace.video.find_videos import OUTPUT_HOME
from headrace.video.source import is_inside, refuse_address

RETRY: Final = "use --retry to try it again"
"""Advice for a chunk that an earlier run quarantined."""


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """Quarantined chunk."""

    reason: str
    decoder: str
    """Version of the decoder that crashed on it."""


@dataclass(frozen=True)
class DeadLetters:
    """Chunks of one output folder that crashed two workers each, with the reason.

    An entry applies to one version of the decoder, because another version may not crash. Only the
    run that owns the folder reads and writes the file.
    """

    path: Path
    """File in the journal."""
    decoder: str
    """Version of the current decoder."""

    def reasons(self, *, retry: bool) -> dict[str, str]:
        """Return chunk name → reason to skip it; drop entries of other decoder versions.

        Args:
            retry: Whether to drop all entries.

        Raises:
            ConfigError: the file cannot be written.
        """
        letters = self.read()
        current = {
            chunk: letter
            for chunk, letter in letters.items()
            if not retry and letter.decoder == self.decoder
        }
        if current != letters:
            self._write(current)
        return {chunk: f"{letter.reason}; {RETRY}" for chunk, letter in current.items()}

    def add(self, chunk: str, reason: str) -> None:
        """Quarantine a chunk.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._write({**self.read(), chunk: DeadLetter(reason=reason, decoder=self.decoder)})

    def read(self) -> dict[str, DeadLetter]:
        """Return chunk name → entry. Empty for an unreadable file, which only costs retries."""
        try:
            plain = json.loads(self.path.read_text(encoding="utf-8"))
            return from_dict(dict[str, DeadLetter], plain, file=self.path)
        except (OSError, ValueError, RecursionError):
            return {}

    def _write(self, letters: Mapping[str, DeadLetter]) -> None:
        plain = {chunk: to_dict(letter) for chunk, letter in letters.items()}
        write_whole(self.path, json.dumps(plain, indent=1) + "\n")


HOME: Final = OUTPUT_HOME
"""Folder of the journal, in the output folder."""
_SECRET: Final = "secret"
_PARTIALS: Final = partial_of(Path("*")).name


class Lost(NamedTuple):
    """A wanted frame, or sample, without output."""

    index: int  # type: ignore[assignment]  # hides a method of tuple
    """Index of the frame, or of the first frame of a clip."""
    cause: str


@recorded
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one chunk, for every kind of extraction."""

    came: int
    """Number of outputs."""
    lost: tuple[Lost, ...] = ()
    concealed: tuple[int, ...] = ()
    """Indices of damaged frames with FFmpeg's error concealment."""


@recorded
@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """Record of one chunk."""

    files: tuple[tuple[str, int], ...]
    """Path in the output folder, and bytes, of each file."""
    facts: Any
    """Further facts, as JSON values."""


@contextmanager
def entry_errors(folder: Path) -> Iterator[None]:
    """Convert errors from an invalid entry to ConfigError."""
    try:
        yield
    except HeadraceError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the journal of {folder} has an invalid entry ({in_words(error)}); give another "
            f"folder with -o, or delete {folder}"
        ) from error


class Journal:
    """Journal of one output folder. Any process may write entries; one run at a time owns it."""

    def __init__(self, folder: Path) -> None:
        """Read and create nothing yet."""
        self.folder = folder
        self._home = folder / HOME
        self._request = self._home / "request.json"
        self._entries = self._home / "chunks"

    def before(self) -> OutputSpec | None:
        """Return the request of earlier runs; None if the folder is new or empty.

        Raises:
            ConfigError: the folder holds other files, or its journal cannot be read.
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
        """Check that the folder is new, or was started by this request.

        Raises:
            ConfigError: the folder was started by another request, or holds other files; the
                message names the differences.
        """
        refuse_address(self.folder, is_output=True)
        before = self.before()
        differences = [] if before is None else list(request.differences(before))
        if differences:
            raise ConfigError(
                f"{self.folder} holds another extraction: {'; '.join(differences)}; give another "
                "folder with -o, or repeat the earlier options to resume it"
            )

    @contextmanager
    def held(self, request: OutputSpec) -> Iterator[None]:
        """Own the folder during this run, and write the request.

        Raises:
            ConfigError: another run owns the folder, or it holds another extraction, or cannot be
                written.
        """
        self.check(request)
        with ExitStack() as stack:
            with self._writing():
                self._entries.mkdir(parents=True, exist_ok=True)
                is_ours = stack.enter_context(file_lock(self._home / "run.lock"))
                if is_ours:
                    # Workers of a killed run end at their next message.
                    with file_lock(self._home / "workers.lock", waits=True):
                        self._sweep()
            if not is_ours:
                raise ConfigError(
                    f"another run is writing to {self.folder}; wait until it ends, or give "
                    "another folder with -o"
                )
            self.check(request)  # another run may have started the folder meanwhile
            write_whole(self._request, request.text())
            yield

    @contextmanager
    def as_worker(self) -> Iterator[None]:
        """Hold the workers' lock: no other run starts before this block ends."""
        with file_lock(self._home / "workers.lock", is_shared=True, waits=True):
            yield

    def request(self) -> OutputSpec:
        """Return the request of the run that owns the folder.

        Raises:
            OSError, ValueError: the request cannot be read.
        """
        return OutputSpec.parse(self._request.read_text(encoding="utf-8"), self._request)

    def write(self, chunk: str, entry: JournalEntry) -> None:
        """Write the entry of a finished chunk, whose files exist.

        Raises:
            ConfigError: the file cannot be written.
        """
        write_whole(self._entry(chunk), json.dumps(to_dict(entry)))
        with suppress(OSError):
            self._entry(_partial(chunk)).unlink()

    def write_partial(self, chunk: str, entry: JournalEntry) -> None:
        """Record the partial output of a chunk, whose files exist.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.write(_partial(chunk), entry)

    def partial_entries(self, chunks: Iterable[str]) -> dict[str, JournalEntry]:
        """Return the partial entries of unfinished chunks whose files are complete."""
        return {chunk: entry for chunk in chunks if (entry := self._read(_partial(chunk)))}

    def done(self, chunks: Iterable[str]) -> dict[str, JournalEntry]:
        """Return the entries of the finished chunks. Reads the size of every file."""
        return {chunk: entry for chunk in chunks if (entry := self._read(chunk))}

    def forget(self, chunk: str) -> None:
        """Remove the entry of a chunk and its files, so that the chunk is unfinished.

        Raises:
            ConfigError: a file cannot be removed.
        """
        entry = self._read(chunk)
        with self._writing():
            for name, _ in entry.files if entry else ():
                (self.folder / name).unlink(missing_ok=True)
            self._entry(chunk).unlink(missing_ok=True)

    def quarantine(self) -> DeadLetters:
        """Return the quarantined chunks of the folder, for the current decoder."""
        return DeadLetters(self._home / "quarantine.json", decoder_version())

    def claims(self) -> Path:
        """Return the folder in which workers of this run claim chunks.

        Raises:
            ConfigError: it cannot be created.
        """
        claims = self._home / "claims"
        with self._writing():
            claims.mkdir(exist_ok=True)
        return claims

    @contextmanager
    def sharing_secret(self, text: str) -> Iterator[None]:
        """Store a secret text for this run's workers, readable only by this user: see `secret`.

        Raises:
            ConfigError: the file cannot be written.
        """
        path = self._home / _SECRET
        with self._writing():
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()

    def secret(self) -> str:
        """Return the secret text of the run."""
        return (self._home / _SECRET).read_text(encoding="utf-8", errors="surrogateescape")

    def _read(self, chunk: str) -> JournalEntry | None:
        try:
            file = self._entry(chunk)
            entry = from_dict(JournalEntry, json.loads(file.read_text(encoding="utf-8")), file=file)
            # A name outside the folder is not an output: `forget` would remove that file.
            if not all(is_inside(name) for name, _ in entry.files):
                return None
            sizes = ((self.folder / name).stat().st_size == size for name, size in entry.files)
            return entry if all(sizes) else None
        except (OSError, ValueError, RecursionError):
            return None

    def _entry(self, chunk: str) -> Path:
        return self._entries / f"{chunk}.json"

    def _writing(self) -> AbstractContextManager[None]:
        return file_errors(f"cannot write to {self.folder}", "give another folder with -o")

    def _check_empty(self) -> None:
        try:
            names = sorted(path.name for path in self.folder.iterdir() if path.name != HOME)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"cannot use {self.folder} as the output folder: {reason_of(error)}; "
                "give another one with -o"
            ) from error
        if names:
            rest = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ConfigError(
                f"{self.folder} holds other files ({names[0]}{rest}); give a new or empty folder "
                "with -o"
            )

    def _sweep(self) -> None:
        """Remove partial files of killed processes."""
        for folder in (self.folder, *(path for path in self._home.glob("**/") if path.is_dir())):
            for path in folder.glob(_PARTIALS):
                with suppress(FileNotFoundError):
                    path.unlink()


def _partial(chunk: str) -> str:
    return f"{chunk}.begun"
