"""What a browser shows to see a run of another machine."""

import secrets


def new_token() -> str:
    """Return 128 random bits as text that needs no quoting in an address."""
    return secrets.token_urlsafe(16)


def is_same(given: str, token: str) -> bool:
    """Say whether `given` is the token, in a time that tells nothing of how much of it is right."""
    return secrets.compare_digest(given.encode(), token.encode())
