"""Reports: sessions, comparisons, benchmarks and launches as text and HTML.

Begin with `page.py` and `text.py`; `html.py`, `session_charts.py` and `drawing.py` draw.
A page changes without any record; `tests/report` compares what it shows.
"""
