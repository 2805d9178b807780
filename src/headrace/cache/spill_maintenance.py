"""Maintenance of a spill store: its segments as entries to prune, its checksums verified."""

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.cache.entry import WRONG_CHECKSUM
from headrace.cache.maintenance import CorruptEntry, Progress, Verification, ignore_progress
from headrace.cache.spill_folder import DAMAGED, SpillFolder, checksum
from headrace.cache.store import EntryInfo
from headrace.errors import CacheError, file_errors, reason_of
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import file_lock

_LOCK_SECONDS: Final = 10.0
_REMEDY: Final = "the owner of the folder may read and write it"


class SpillSegments:
    """Segments of a spill store, for `headrace.cache.maintenance.prune`."""

    def __init__(self, folder: SpillFolder, clock: Clock = SYSTEM_CLOCK) -> None:
        """Use an open folder."""
        self.where = str(folder.path)
        self._folder = folder
        self._clock = clock

    def list_entries(self) -> Iterator[EntryInfo]:
        """Yield every segment: see `Prunable.list_entries`."""
        now = self._clock.wall_seconds()
        with file_errors(f"cannot read {self.where}", _REMEDY, CacheError):
            segments = self._folder.segments()
        for number, segment in segments.items():
            unused = max(0.0, now - segment.used_seconds)
            yield EntryInfo(f"{number:016x}", segment.size_bytes, unused)

    def remove(self, digests: Sequence[str]) -> None:
        """Remove segments; runs that use them decode their frames again."""
        with (
            file_errors(f"cannot remove from {self.where}", _REMEDY, CacheError),
            file_lock(self._folder.lock_path, timeout_seconds=_LOCK_SECONDS) as is_held,
        ):
            if not is_held:
                raise CacheError(f"{self.where} is locked by a writing process; try again")
            self._folder.next_turn()
            for digest in digests:
                self._folder.remove(int(digest, 16))

    def verify(
        self, *, repair: bool = False, on_progress: Progress = ignore_progress
    ) -> Verification:
        """Check every frame against its checksum; reads the whole store.

        Args:
            repair: Whether to remove damaged frames.
            on_progress: Called after each segment with the checked segments and their number.

        Raises:
            CacheError: the folder cannot be read or repaired.
        """
        damaged: list[CorruptEntry] = []
        checked = 0
        entries = list(self.list_entries())
        for done, entry in enumerate(entries, 1):
            number = int(entry.digest, 16)
            try:
                for record, reason in self._records(number):
                    checked += 1
                    if reason:
                        damaged.append(CorruptEntry(f"{entry.digest}.{record}", reason))
                        if repair:
                            with file_errors(f"cannot repair {self.where}", _REMEDY, CacheError):
                                self._folder.erase(number, record)
            except FileNotFoundError:  # evicted meanwhile
                pass
            except OSError as error:
                damaged.append(CorruptEntry(entry.digest, f"cannot be read: {reason_of(error)}"))
                if repair:
                    self.remove([entry.digest])
            on_progress(done, len(entries))
        return Verification(self.where, checked, tuple(damaged), repair)

    def _records(self, number: int) -> Iterator[tuple[int, str]]:
        """Yield number and damage of each record that is not erased; empty text: intact."""
        segment = self._folder.segments().get(number)
        if segment is None:
            return
        for k, record in enumerate(self._folder.records(number, segment, 0)):
            _, offset, frame, length, expected, _ = record.item()
            if length == DAMAGED:
                yield k, "has a damaged record, or was truncated"
            elif length:
                payload = self._folder.read(number, offset, length)
                is_intact = checksum(record["stream"].tobytes(), frame, payload) == expected
                yield k, "" if is_intact else WRONG_CHECKSUM
