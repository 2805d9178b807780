"""What is known of the features of one video, as plain values beside them."""

import json
from typing import Any

from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.whole_video import WholeVideo
from headrace.records import to_dict


def video_facts(video: WholeVideo, facts: TableFacts) -> dict[str, Any]:
    """Return what is one for all samples: which video, and how its features were made."""
    return {
        "video": video.video.name,
        "path": video.video.path,
        "content": video.video.content,
        "size": list(video.size),
        "time_base": [video.time_base.numerator, video.time_base.denominator],
        "lost": list(video.lost),
        "errors": list(video.errors),
        **to_dict(facts),
    }


def sidecar(video: WholeVideo, facts: TableFacts) -> bytes:
    """Return a JSON file to lie beside an array of features: the above, and a list of each of
    `index`, `pts`, `pts_seconds` and `is_concealed`, as long as the array."""
    samples = video.samples
    lists = {
        "index": samples.index.tolist(),
        "pts": samples.pts.tolist(),
        "pts_seconds": video.seconds.tolist(),
        "is_concealed": samples.is_concealed.tolist(),
    }
    return json.dumps({**video_facts(video, facts), **lists}).encode()
