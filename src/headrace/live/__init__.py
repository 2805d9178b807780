"""Live sources: frames as they arrive, their pace, and the drops when there are too many.

Begin with `live_source.py`, the protocol, then `network_source.py`.
A kind of source is one file plus its branch in `open_source.py`.
"""
