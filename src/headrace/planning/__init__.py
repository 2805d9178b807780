"""What is decoded together, and when: from wanted frames to decode jobs. Pure."""
