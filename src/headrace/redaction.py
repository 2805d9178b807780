"""Redaction of addresses: user names, passwords and tokens are masked."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,40}:/+")
"""Two letters or more, of limited length. A normalized path has one slash left of `://`."""
_HOST: Final = re.compile(r"(?:.*@)?(?:[^@:]*|\[[^@\[\]]*\])(?::[0-9]*)?", re.DOTALL)
"""A possible host with its port, after a user name and a password."""
_SECRET_NAME: Final = re.compile(
    r"pass|pw|psw|token|key|secret|auth|sig|usr|user|login|cred|code|session|ticket|jwt", re.I
)
_LONGEST_HARMLESS: Final = 16
"""Characters; a longer query value may be a token, whatever its name."""
_MASK: Final = "***"
HOW_TO_WRITE: Final = (
    "in a user name or password write % as %25, @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 "
    "and a space as %20"
)


def masked(text: str) -> str:
    """Return an address, or an argument that holds one, with its secrets replaced by `***`.

    The address is everything from the first scheme to the end of the text: a password may hold
    spaces and quotes, so do not use this on prose. Masked are the login before the host, and query
    values that have a secret's name or are long. Where a user name or password is not escaped, too
    much is masked rather than too little: up to the last @, and everything after the scheme where
    the host cannot be distinguished from the password.
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
    """Return whether an @ is where only an unescaped password, or a path, can have one."""
    before, at, _ = _SCHEME.sub("", address, count=1).rpartition("@")
    return bool(at and ":" in before and re.search(r"[/?#]", before))


def _masked_rest(rest: str) -> str:
    before, at, after = rest.rpartition("@")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not at:
        name, colon, _ = rest.partition(":")
        # Neither a port nor a host: a password without a host.
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
        is_secret = bool(_SECRET_NAME.search(name or value)) or len(value) > _LONGEST_HARMLESS
        # Without a name it may be the end of a secret with a & in it.
        if is_secret or (was_secret and not mark and part not in "&;#?"):
            shown += f"{name.partition('=')[0]}={_MASK}" if mark else _MASK
            was_secret = True
        else:
            shown += part
    return shown
