"""A web page that shows a live run, and the same figures for programs."""
