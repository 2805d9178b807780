"""Which run a command line asks for: one file at full speed, or frames as they come."""

from pathlib import Path

from headrace.models.catalogue import task_of
from headrace.runs.live.addresses import is_endless
from headrace.runs.live.options import LiveOptions
from headrace.runs.live.runner import chosen_overload

_LISTS = (".txt", ".csv", ".jsonl", ".streams")


def is_plain_file(options: LiveOptions) -> bool:
    """Whether it is one file, at full speed, frame by frame.

    Raises:
        ConfigError: torchvision has no such model; the options say what to do with frames that
            are too many, and none will be.
    """
    flow, (first, *others) = options.flow, options.sources
    if others or is_endless(first) or Path(first).is_dir() or first.endswith(_LISTS):
        return False
    if flow.pace == "realtime":
        return False
    chosen_overload(options, is_live=False)
    has_clips = task_of(options.compute.model_name) == "video" or options.clips.clip_len is not None
    return not has_clips and flow.max_seconds is None
