"""Reports: sessions, comparisons, benchmarks and launches as text and HTML."""
