"""Which run a command line asks for: files at full speed, or frames as they come."""

from headrace.live.address import FileAddress, addresses_of
from headrace.models.catalogue import task_of
from headrace.runs.live.options import ClipOptions, LiveOptions
from headrace.runs.live.runner import chosen_overload


def plain_files(options: LiveOptions) -> tuple[str, ...] | None:
    """Return the paths where all are files, at full speed, frame by frame, not watched; else None.

    Raises:
        ConfigError: a source names nothing; torchvision has no such model; frames that will not be
            too many are to be dropped.
    """
    flow, addresses = options.flow, addresses_of(options.input.sources, options.input.rate)
    files = [each.name for each in addresses if isinstance(each, FileAddress)]
    if len(files) < len(addresses) or flow.pace == "realtime":
        return None
    chosen_overload(options, is_live=False)
    has_clips = task_of(options.compute.model_name) == "video" or options.clips != ClipOptions()
    is_plain = not has_clips and flow.max_seconds is None and options.view == "none"
    return tuple(files) if is_plain else None
