"""Overlapping actions in one video: one clip per action, inside its segment.

python overlapping_segments.py ACTIONS.csv       # path,start_seconds,end_seconds,label
"""

import sys
from collections import Counter

from headrace import ClipLoader, Manifest, RandomClips

manifest = Manifest.read(sys.argv[1])
classes = manifest.classes["label"]
clips = RandomClips(num_frames=8, fps=8, boundary="pad")
clips_of_row = Counter()

with ClipLoader(manifest, clips=clips, batch_size=4, size=(64, 64)) as loader:
    for batch in loader:
        for sample, row in enumerate(batch.row.tolist()):
            start, end = manifest.segments[row]
            seconds = batch.pts_seconds[sample].tolist()
            assert start <= min(seconds)
            assert end is None or max(seconds) < end
            assert classes[batch.label[sample]] == manifest.columns["label"][row]
            clips_of_row[row] += 1
    statistics = loader.statistics

assert clips_of_row == dict.fromkeys(range(len(manifest)), 1)
print(f"{len(manifest)} segments of {len(manifest.videos)} videos, each once")
print(f"{statistics.frames_decoded} frames decoded for {statistics.frames_delivered}")
