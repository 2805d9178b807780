"""Loaders, datasets and samplers that bring frames and clips to a training loop."""
