"""Whether a run is well: the answer for who watches over it."""

from headrace.profiling.provenance import Record
from headrace.sinks.web.status import LiveStatus


class Health(Record):
    """Whether results come, in a word and a sentence."""

    is_good: bool
    """False: no result for too long, or never again."""
    words: str
    """What is the matter, and of which sources."""


def health(status: LiveStatus, silent_seconds: float) -> Health:
    """Say how a run is that may be silent for `silent_seconds`, also before its first result.

    One source of several that is down is named, and no bad health: to start the run again would
    cost the others.
    """
    silence = status.running_seconds if status.silent_seconds is None else status.silent_seconds
    down = [
        f"{source.name} is {source.state} for {source.since_seconds:.0f} s"
        for source in status.sources
        if source.state not in ("live", "ended")
    ]
    is_good = status.state != "ended" and silence <= silent_seconds
    if status.state == "ended":
        first = "the run has ended"
    elif not is_good:
        first = f"no result for {silence:.0f} s, more than {silent_seconds:g} s"
    elif status.silent_seconds is None:
        first = "starting"
    else:
        first = "results come"
    return Health(is_good=is_good, words="; ".join([first, *down]))
