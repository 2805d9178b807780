"""Records of runs, their metrics, traces, findings and comparisons.

Begin with `session.py`, the record, then `recorder.py`, which fills it.
The columns of the CSV are in `metrics_csv.py`. A changed record needs a new version.
"""
