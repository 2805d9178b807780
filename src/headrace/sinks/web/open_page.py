"""Factory of the web page; needs the extra `web`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.extras import require
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sinks.web.status import LiveStatus
from headrace.sinks.web.web_options import WebOptions

if TYPE_CHECKING:
    from headrace.sinks.web.web_sink import WebView


def open_web_view(
    options: WebOptions,
    read_status: Callable[[], LiveStatus],
    names: Sequence[str],
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> "WebView":
    """Return the web page of a run: see `WebView`.

    Raises:
        BackendError: the extra `web` is not installed.
        ConfigError: the port cannot be opened.
    """
    with require("web", "a run that is shown as a web page or as metrics"):
        from headrace.sinks.web.web_sink import WebView
    return WebView(options, read_status, tuple(names), clock=clock)
