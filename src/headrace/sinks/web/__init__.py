"""Web page of a live run, and its status and metrics for programs."""
