"""Suite: all benchmarks on the user's videos, as one report.

Begin with `suite_runner.py`; `ranking.py` puts the largest gain first.
The page (`suite_page.py`) and the choice (`suite_selection.py`) change without the rest.
"""
