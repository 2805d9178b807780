"""Addresses as people may see them: user names, passwords and tokens are left out."""

import re
from typing import Final

_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)([^\s\"'<>]*)")
_SECRET_NAME = re.compile(r"pass|pwd|token|key|secret|auth|sig|user|login|cred|code|session", re.I)
_LONGEST_HARMLESS: Final = 16
"""Characters; a longer value of a query may be a token, whatever its name."""
_MASK: Final = "***"


def masked(text: str) -> str:
    """Return any text with the secrets of all addresses in it replaced by `***`.

    Masked are what stands before the host, and those values of the query whose name sounds like a
    secret, or that are long. Where a password was not written as an address wants it, too much is
    masked rather than too little.
    """
    return _ADDRESS.sub(lambda found: found[1] + _masked_rest(found[2]), text)


def _masked_rest(rest: str) -> str:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    # "user:pa/ss@host": an @ behind the first slash counts where a colon stands before it.
    if "@" in authority:
        rest = f"{_MASK}@" + authority.rpartition("@")[2] + rest[len(authority) :]
    elif "@" in rest and ":" in authority:
        rest = f"{_MASK}@" + rest.rpartition("@")[2]
    place, mark, query = rest.partition("?")
    return place + mark + re.sub(r"[^&;#]+", lambda pair: _masked_pair(pair[0]), query)


def _masked_pair(pair: str) -> str:
    name, mark, value = pair.partition("=")
    is_secret = bool(_SECRET_NAME.search(name)) or len(value or name) > _LONGEST_HARMLESS
    return (f"{name}={_MASK}" if mark else _MASK) if is_secret else pair
