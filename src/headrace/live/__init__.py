"""Live sources: frames on arrival, their pace, and drops under overload.

Begin with `live_source.py`, the protocol, then `network_source.py`.
A kind of source is a class plus its branch in `realtime_source.py`.
"""
