"""Contact sheets: the frames of a batch as a grid of images, with captions and marks."""
