"""Reports: sessions, comparisons, benchmarks and launches as text and HTML.

Begin with `text.py` and `folder.py`; `page.py` and `session_charts.py` draw.
`tests/report` compares the rendered text.
"""
