"""From what was typed to how the page of a run is served; its token from where no list shows it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.config_flags import configured
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.sinks.web.web_options import WebOptions

TOKEN_VARIABLE: Final = "HEADRACE_WEB_TOKEN"
"""Of the environment. A token that is typed would be seen by everybody who lists processes."""
_LARGEST_TOKEN_BYTES: Final = 4096


def web_options(typed: dict[str, Any]) -> "WebOptions | None":
    """Return how a run is served, or None where it is not; `typed`: options of `headrace run`.

    Raises:
        ConfigError: a value is not possible, says nothing of what is asked for, or names a file
            without a token.
    """
    from headrace.sinks.web.web_options import WebOptions
    from headrace.units import parse_seconds

    view, token_file = typed["view"], typed["web_token_file"]
    options = configured(
        WebOptions,
        typed,
        token=_token(token_file) if view in ("web", "metrics") else None,
        with_page=view == "web",
        health_timeout_seconds=parse_seconds(typed["health_timeout"]),
    )
    if view in ("web", "metrics"):
        return options
    plain = WebOptions(with_page=False)
    if options != plain or token_file is not None:
        raise ConfigError(
            "--web-address, --web-port, --web-host, --web-token-file and --health-timeout are for "
            f"a run that is served, and --view {view} serves nothing; give --view web or metrics"
        )
    return None


def _token(file: Path | None) -> str | None:
    """Return what the file or the environment holds; None where a new one is to be made."""
    given = os.environ.get(TOKEN_VARIABLE)
    if file is None:
        return given
    if given is not None:
        raise ConfigError(
            f"a token is given by --web-token-file and by {TOKEN_VARIABLE}; leave one of them out"
        )
    try:
        with file.open("rb") as opened:
            token = opened.read(_LARGEST_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it holds other characters than ASCII"
        raise ConfigError(
            f"cannot read the token in {file}: {reason.lower()}; give a file with nothing else"
        ) from error
    if not token:
        raise ConfigError(f"{file} holds no token; write one of 16 characters or more into it")
    return token
