"""Planner of `headrace plan`: settings of a data loader, from the videos themselves.

Begin with `planner.py`; `strategy_cost.py` predicts and measures one strategy.
The output (`plan_output.py`, `plan_facts.py`) changes without the prediction.
"""
