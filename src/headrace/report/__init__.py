"""Reports: sessions, comparisons, benchmarks and launches as text and HTML.

Begin with `page.py` and `text.py`; `html.py`, `session_charts.py` and `drawing.py` draw.
`tests/report` compares the rendered text.
"""
