"""Addresses become the sources of a live run here: at the pace that was asked for."""

from collections.abc import Sequence

from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.live.address import FileAddress, addresses_of
from headrace.live.open import live_source
from headrace.live.options import SourceOptions
from headrace.live.source import LiveSource
from headrace.runs.live.full_speed import FullSpeedFile
from headrace.runs.live.options import PaceName
from headrace.video.image_sequence import Rate


def open_sources(
    texts: Sequence[str],
    pace: PaceName,
    options: SourceOptions | None = None,
    *,
    on_error: OnError = "raise",
    rate: Rate | None = None,
) -> tuple[LiveSource, ...]:
    """Return the sources that addresses name, in order; nothing is opened yet.

    Args:
        texts: As the user typed them: see `addresses_of`.
        pace: Of files; `auto` reads them as fast as it can, but beside something that comes as it
            comes as they would be played.
        options: How cameras and network streams are connected to.
        on_error: What damaged frames of files do. Those of a stream are always left out.
        rate: Pictures a second, where all are pictures in order.

    Raises:
        ConfigError: nothing can be read there, or not at this pace.
    """
    check_on_error(on_error)
    addresses = addresses_of(texts, rate)
    endless = [each.name for each in addresses if not isinstance(each, FileAddress)]
    if endless and pace == "offline":
        raise ConfigError(
            f"{endless[0]} comes as it comes, and --pace offline asks for it as fast as it can; "
            "leave out --pace"
        )
    if pace != "realtime" and not endless:
        files = [each for each in addresses if isinstance(each, FileAddress)]
        return tuple(FullSpeedFile(each.source, on_error) for each in files)
    if on_error == "conceal":
        raise ConfigError(
            "--on-error conceal is for files at full speed: in real time a damaged frame would be "
            "shown behind those that follow it; give --on-error skip"
        )
    return tuple(live_source(address, options, on_error=on_error) for address in addresses)
