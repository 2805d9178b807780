"""Options of the web page, from the typed values; its token from a file or the environment."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.config_flags import configured
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.sinks.web.web_options import WebOptions

TOKEN_VARIABLE: Final = "HEADRACE_WEB_TOKEN"
"""Environment variable of the token; on the command line, any user could read it."""
_MAX_TOKEN_BYTES: Final = 4096


def web_options(typed: dict[str, Any]) -> "WebOptions | None":
    """Return the web options of `headrace run`; None without a page or metrics.

    Raises:
        ConfigError: a value is not possible, has no effect, or names a file without a token.
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
    """Return the token of the file or the environment; None: generate one."""
    variable = os.environ.get(TOKEN_VARIABLE)
    if file is None:
        return variable
    if variable is not None:
        raise ConfigError(
            f"a token is given by both --web-token-file and {TOKEN_VARIABLE}; leave one out"
        )
    try:
        with file.open("rb") as opened:
            token = opened.read(_MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII text"
        raise ConfigError(
            f"cannot read the token in {file}: {reason.lower()}; give a file with the token alone"
        ) from error
    if not token:
        raise ConfigError(f"{file} has no token; write one of 16 characters or more into it")
    return token
