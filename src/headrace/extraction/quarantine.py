"""Quarantine: what ended two workers is kept, and later runs leave it out without trying."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.records import from_dict, to_dict
from headrace.text_file import write_whole

RETRY: Final = "--retry tries it again"
"""What is said of a chunk that an earlier run gave up."""


@dataclass(frozen=True, kw_only=True)
class Fallen:
    """Why a chunk is in quarantine."""

    reason: str
    decoder: str
    """Version of the decoder that ended with it."""


@dataclass(frozen=True)
class Quarantine:
    """The chunks of one output folder that ended two workers each, with the reason.

    It holds for one version of the decoder: another one may not crash of the same file. Written by
    the run that has the folder, and read by it.
    """

    path: Path
    """The file, in the ledger."""
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
