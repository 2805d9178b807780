"""Planning: from wanted frames to decode jobs. Pure."""
