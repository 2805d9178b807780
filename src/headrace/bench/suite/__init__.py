"""Suite: all benchmarks on the user's videos, as one report.

Begin with `suite_runner.py`; `ranking.py` puts the largest gain first.
`suite_page.py` renders the report, `suite_selection.py` plans and records it.
"""
