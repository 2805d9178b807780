"""Decoders: packets to pixels; one protocol, one file per backend, no threads.

Begin with `protocol.py`, then `stream_decoder.py`, and `pyav.py`, the backend that all others must
equal.
A backend is one file plus its name in `decoder_config.py` and `open_decoder.py`.
"""
