"""Planner of `headrace plan`: settings of a data loader, from the videos themselves.

Begin with `planner.py`; `plan_simulation.py` predicts, `plan_probe.py` measures.
The output (`plan_table.py`, `plan_text.py`) changes without the prediction.
"""
