"""Which run a command line asks for: one file at full speed, or frames as they come."""

from headrace.live.address import FileAddress, addresses_of
from headrace.models.catalogue import task_of
from headrace.runs.live.options import LiveOptions
from headrace.runs.live.runner import chosen_overload


def plain_file(options: LiveOptions) -> str | None:
    """Return the path where it is one file, at full speed, frame by frame, not watched; else None.

    Raises:
        ConfigError: a source names nothing; torchvision has no such model; frames that will not be
            too many are to be dropped.
    """
    flow, (first, *others) = options.flow, addresses_of(options.sources)
    if others or not isinstance(first, FileAddress) or flow.pace == "realtime":
        return None
    chosen_overload(options, is_live=False)
    has_clips = task_of(options.compute.model_name) == "video" or options.clips.clip_len is not None
    is_plain = not has_clips and flow.max_seconds is None and options.view == "none"
    return first.name if is_plain else None
