"""Features: outputs of a model's layer for frames or clips, computed chunk by chunk."""
