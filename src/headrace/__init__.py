"""Video for PyTorch: the right frames, as fast as the hardware allows, and where the time went."""
