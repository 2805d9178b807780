"""Where results go: an annotated video, a file of predictions."""
