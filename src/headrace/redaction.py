"""Redaction of addresses: user names, passwords and tokens are masked."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,40}:/+")
"""Scheme of 2 to 41 characters. A normalized path has one slash after it, an address has two."""
_HOST: Final = re.compile(r"(?:.*@)?(?:[^@:]*|\[[^@\[\]]*\])(?::[0-9]*)?", re.DOTALL)
"""Optional user name and password, host, optional port."""
_SECRET_NAME: Final = re.compile(
    r"pass|pw|psw|token|key|secret|auth|sig|usr|user|login|cred|code|session|ticket|jwt", re.I
)
_MAX_HARMLESS: Final = 16
"""Max characters of a query value that cannot be a token."""
_MASK: Final = "***"
HOW_TO_WRITE: Final = (
    "in a user name or password write % as %25, @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 "
    "and a space as %20"
)


def masked(text: str) -> str:
    """Return an address, or an argument that holds one, with its secrets replaced by `***`.

    The address extends from the first scheme to the end of the text, because a password may
    contain spaces and quotes; do not use this on prose. The login before the host is masked, and
    query values that are long or named like a secret. If a user name or password is not escaped,
    the mask extends to the last @, or over the whole address if host and password cannot be
    distinguished.
    """
    scheme = _SCHEME.search(text)
    if scheme is None:
        return text
    return text[: scheme.end()] + _masked_rest(text[scheme.end() :])


def without_secrets(message: str, arguments: Iterable[str]) -> str:
    """Return a message with the addresses of all `arguments` masked."""
    for argument in arguments:
        scheme = _SCHEME.search(argument)
        address = argument[scheme.start() :] if scheme else ""
        if address != masked(address):
            for form in (address, repr(address)[1:-1], str(Path(address))):
                message = message.replace(form, masked(address))
    return message


def is_ambiguous(address: str) -> bool:
    """Return whether an @ follows a `/`, `?` or `#`: in an unescaped password, or in a path."""
    before, at, _ = _SCHEME.sub("", address, count=1).rpartition("@")
    return bool(at and ":" in before and re.search(r"[/?#]", before))


def _masked_rest(rest: str) -> str:
    before, at, after = rest.rpartition("@")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not at:
        name, colon, _ = rest.partition(":")
        # Not a host with a port: the rest is a password.
        return _masked_query(rest) if _HOST.fullmatch(authority) else f"{name}{colon}{_MASK}"
    if "@" not in authority and ":" not in before:
        return _masked_query(rest)
    if re.search(r"[?#]", before) and _HOST.fullmatch(authority):
        return _MASK
    return f"{_MASK}@{_masked_query(after)}"


def _masked_query(rest: str) -> str:
    location, mark, query = rest.partition("?")
    return location + mark + _masked_pairs(query)


def _masked_pairs(query: str) -> str:
    shown, was_secret = "", False
    for part in re.split(r"([&;#?])", query):
        name, mark, value = part.rpartition("=")
        is_secret = bool(_SECRET_NAME.search(name or value)) or len(value) > _MAX_HARMLESS
        # A part without a name may be the end of a secret that contains a &.
        if is_secret or (was_secret and not mark and part not in "&;#?"):
            shown += f"{name.partition('=')[0]}={_MASK}" if mark else _MASK
            was_secret = True
        else:
            shown += part
    return shown
