"""What a video is, as values: where it comes from, which frames it holds, and their pixels."""
