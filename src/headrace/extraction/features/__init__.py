"""Features of frames and clips: what a layer of a model gives for each, chunk by chunk."""
