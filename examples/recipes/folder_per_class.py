"""One folder per class: train on most videos, test on the others.

python folder_per_class.py DATASET        # DATASET/walk/1.mp4, DATASET/run/2.mp4, ...
"""

import sys

import torch
from torch.nn.functional import cross_entropy

from headrace import ClipLoader, Manifest, RandomClips, UniformClips

train, test = Manifest.of_folders(sys.argv[1]).split(0.75, seed=0)
classes = train.classes["label"]
model = torch.nn.Linear(3, len(classes))  # replace by your model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

clips = RandomClips(num_frames=4, fps=8, weights=train.balanced("label"))
with ClipLoader(train, clips=clips, batch_size=2, size=(64, 64)) as loader:
    for _ in range(3):
        for batch in loader:
            scores = model(batch.frames.float().mean((1, 3, 4)) / 255)
            loss = cross_entropy(scores, batch.label)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

clips = UniformClips(num_clips=2, num_frames=4, fps=8)
with ClipLoader(test, clips=clips, batch_size=2, size=(64, 64)) as loader:
    for batch in loader:
        predictions = model(batch.frames.float().mean((1, 3, 4)) / 255).argmax(-1)
        for video, label, predicted in zip(batch.video, batch.label, predictions, strict=True):
            folder = test.videos[video].parent.name
            assert classes[label] == folder
            print(f"{test.videos[video].name} in {folder}: {classes[predicted]}")
