"""Workers on a Ray cluster, in place of local processes."""
