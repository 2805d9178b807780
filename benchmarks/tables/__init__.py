"""Results as Markdown; cases that were lost stay in."""
