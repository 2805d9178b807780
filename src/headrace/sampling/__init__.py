"""Sampling: which frames, in which order; pure, seeded, and independent of decoding."""
