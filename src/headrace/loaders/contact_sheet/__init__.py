"""What a batch looks like: its pictures in a grid, with what the batch says of each."""
