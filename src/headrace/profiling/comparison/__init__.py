"""Two recorded sessions beside each other: what differs, and how sure that is."""
