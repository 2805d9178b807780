"""Sinks of results, such as an annotated video or a file of predictions.

Begin with `custom_sink.py`, the protocol, then `result_rows.py`.
A sink is one class with open, write and close, independent of other sinks.
"""
