"""Labels from a table: every frame has the label and the other columns of its row.

python csv_labels.py LABELS.csv           # path,label,speed
"""

import csv
import sys
from pathlib import Path

from headrace import FrameLoader, Manifest, ShuffledFrames

table = Path(sys.argv[1])
manifest = Manifest.read(table)
classes = manifest.classes["label"]
print(f"{len(manifest)} rows, classes {', '.join(classes)}")

with FrameLoader(manifest, sampling=ShuffledFrames(), batch_size=16, size=(64, 64)) as loader:
    batches = list(loader)

rows = list(csv.DictReader(table.open()))
for batch in batches:
    for row, video, label, speed in zip(
        batch.row, batch.video, batch.label, batch.speed, strict=True
    ):
        assert classes[label] == rows[row]["label"]
        assert manifest.videos[video].name == Path(rows[row]["path"]).name
        assert speed == float(rows[row]["speed"])
print(f"{sum(map(len, batches))} frames, each with the label of its row")
