"""Files of safetensors: NAME.safetensors holds the features of a video and where they are from."""

import json
from pathlib import Path

from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.video_facts import video_facts
from headrace.extraction.features.whole_video import WholeVideo


class SafetensorsFiles:
    """Writes a file for each video: an `Exporter`. Needs safetensors.

    Tensors: `features` [n, ...], `index` and `pts` int64 [n], `pts_seconds` float64 [n],
    `is_concealed` bool [n]. What else is known stands as JSON under `headrace` in the metadata.
    """

    def __init__(self, folder: Path, facts: TableFacts) -> None:
        """Write into `folder`, which is there."""
        self._folder = folder
        self._facts = facts

    def write(self, video: WholeVideo) -> None:
        """Write the file of a video: see `Exporter.write`."""
        from safetensors.numpy import save

        content = save(
            {**vars(video.samples), "pts_seconds": video.seconds},
            {"headrace": json.dumps(video_facts(video, self._facts))},
        )
        (self._folder / f"{video.video.name}.safetensors").write_bytes(content)

    def close(self) -> None:
        """Do nothing: each file is closed already."""
