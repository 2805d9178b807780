"""Samplers: choice and order of frames; pure, seeded, and independent of decoding.

Begin with `sampler.py`, the protocol, then `frame_samplers.py`.
If the order of a sampler changes, the identity in saved states must change too.
"""
