"""Labels from a table: train on its videos; every frame has the label of its row.

python csv_labels.py LABELS.csv           # columns path and label
"""

import csv
import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from headrace import FrameLoader, Manifest, ShuffledFrames

table = Path(sys.argv[1])
manifest = Manifest.read(table)
classes = manifest.classes["label"]
labels = [row["label"] for row in csv.DictReader(table.open())]
print(f"{len(manifest)} rows, classes {', '.join(classes)}")

model = torch.nn.Linear(3, len(classes))  # replace by your model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
with FrameLoader(manifest, sampling=ShuffledFrames(), batch_size=16, size=(64, 64)) as loader:
    count = 0
    for batch in loader:  # one epoch
        assert [classes[label] for label in batch.label] == [labels[row] for row in batch.row]
        loss = cross_entropy(model(batch.frames.float().mean((2, 3)) / 255), batch.label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        count += len(batch)
print(f"trained on {count} frames")
