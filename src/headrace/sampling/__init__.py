"""Samplers: which frames, in which order; pure, seeded, and independent of decoding.

Begin with `sampler.py`, the protocol, then `frame_samplers.py`.
A sampler is one class plus its public name; a changed order needs a new saved identity.
"""
