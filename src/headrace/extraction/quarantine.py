"""Quarantine: what ended two workers is kept, and later runs leave it out without trying."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.text_file import write_whole

RETRY: Final = "--retry tries it again"
"""What is said of a chunk that an earlier run gave up."""


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
            chunk: facts
            for chunk, facts in known.items()
            if not retry and facts["decoder"] == self.decoder
        }
        if kept != known:
            self._write(kept)
        return {chunk: f"{facts['reason']}; {RETRY}" for chunk, facts in kept.items()}

    def add(self, chunk: str, reason: str) -> None:
        """Leave a chunk out from now on.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._write({**self.known(), chunk: {"reason": reason, "decoder": self.decoder}})

    def known(self) -> dict[str, dict[str, str]]:
        """Return name of a chunk → its `reason` and the version of the `decoder`; nothing where the
        file cannot be read, which costs tries only."""
        try:
            plain = json.loads(self.path.read_text(encoding="utf-8"))
            return {
                str(chunk): {"reason": str(facts["reason"]), "decoder": str(facts["decoder"])}
                for chunk, facts in plain.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _write(self, chunks: Mapping[str, Mapping[str, str]]) -> None:
        write_whole(self.path, json.dumps(chunks, indent=1) + "\n")
