"""Live sources from addresses."""

from headrace.decode.index_store import IndexStore
from headrace.live.address import Address, FileAddress, PatternAddress
from headrace.live.live_source import LiveSource
from headrace.live.network_source import NetworkSource
from headrace.live.open_options import SourceOptions, open_options_of
from headrace.live.pattern import PatternSource
from headrace.live.realtime_file import OnDamage, RealtimeFile


def live_source(
    address: Address,
    options: SourceOptions | None = None,
    store: IndexStore | None = None,
    *,
    on_error: OnDamage = "raise",
) -> LiveSource:
    """Return the live source of an address. Opens nothing.

    Args:
        address: Address from `parse_addresses`.
        options: Connection options of cameras and network streams; None: the defaults.
        store: Cache of indexes; None: the user's cache folder.
        on_error: Handling of damaged frames of a file; a stream always skips them.
    """
    if isinstance(address, FileAddress):
        return RealtimeFile(address, store, on_error=on_error)
    if isinstance(address, PatternAddress):
        return PatternSource(address)
    options = options or SourceOptions()
    return NetworkSource(open_options_of(address, options), options)
