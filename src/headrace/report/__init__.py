"""Drawing a recorded session: charts, html and text. Nothing here measures."""
