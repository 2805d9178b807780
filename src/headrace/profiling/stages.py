"""The roles that stages play, and how a sentence, a table and a chart name each."""

from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["decode", "preprocess", "transfer", "model", "sink"]
"""What a stage does to a frame, whatever it is called."""


@dataclass(frozen=True)
class RoleWords:
    """How a role is called where people read."""

    phrase: str
    """In a sentence: "bound by ..."."""
    column: str
    """In the table of steps: `{column}_latency_ms`."""


ROLES: Final[dict[Role, RoleWords]] = {
    "decode": RoleWords("decoding", "read"),
    "preprocess": RoleWords("preprocessing", "prep"),
    "transfer": RoleWords("the transfer to the device", "transfer"),
    "model": RoleWords("the model", "exec"),
    "sink": RoleWords("drawing and writing", "sink"),
}
"""In the order the frames take."""
