"""Average the scores of ten clips per video, on any number of ranks; each clip counts once.

torchrun --nproc_per_node=2 ten_clip_evaluation.py VIDEO...
"""

import sys

import torch
from torch import distributed

from headrace import ClipLoader, UniformClips

videos = sys.argv[1:]
torch.manual_seed(0)
model = torch.nn.Linear(3, 5)  # replace by your model
scores, clips = torch.zeros(len(videos), 5), torch.zeros(len(videos))
local = []

distributed.init_process_group("gloo")
ten_clips = UniformClips(num_clips=10, num_frames=4, fps=8)
with torch.inference_mode(), ClipLoader(videos, clips=ten_clips, size=(64, 64)) as loader:
    for batch in loader:
        first = ~batch.is_repeated  # without the repeats that fill up ranks
        predicted = model(batch.frames.float().mean((1, 3, 4)) / 255).softmax(-1)
        scores.index_add_(0, batch.video[first], predicted[first])
        clips.index_add_(0, batch.video[first], torch.ones(int(first.sum())))
        local += zip(batch.video[first].tolist(), batch.index[first, 0].tolist(), strict=True)
distributed.all_reduce(scores)
distributed.all_reduce(clips)

assert (clips == 10).all()
ranks = [local] * distributed.get_world_size()
distributed.all_gather_object(ranks, local)
assert len({clip for rank in ranks for clip in rank}) == 10 * len(videos)
if distributed.get_rank() == 0:
    print(f"{int(clips.sum())} clips of {len(videos)} videos on {len(ranks)} ranks, each once")
    print("mean score of the best class", round(float((scores / 10).max(1).values.mean()), 4))
distributed.destroy_process_group()
