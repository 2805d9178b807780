"""Clips at one frame rate from files of any rate: 16 frames are 2 seconds.

python clips_at_8_fps.py VIDEO...
"""

import sys
from fractions import Fraction

from headrace import ClipLoader, RandomClips, open_index

videos = sys.argv[1:]
clips = RandomClips(num_frames=16, fps=8)

with ClipLoader(videos, clips=clips, batch_size=len(videos), size=(64, 64)) as loader:
    batch = next(iter(loader))

for video, frames in zip(batch.video.tolist(), batch.index.tolist(), strict=True):
    index = open_index(videos[video])
    starts = index.pts * index.info.time_base  # exact fractions
    ends = starts + index.duration * index.info.time_base
    for step, frame in enumerate(frames):
        time = starts[frames[0]] + Fraction(step, 8)
        assert starts[frame] <= time < ends[frame]
    print(f"{videos[video]}: every {(frames[-1] - frames[0]) / 15:.2f} frames")
