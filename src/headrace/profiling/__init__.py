"""Records of runs, their metrics, traces, findings and comparisons.

Begin with `session.py`, the record, then `recorder.py`, which fills it.
`metrics.py` has the columns of the CSV. A changed record needs a new version.
"""
