"""From decoded uint8 frames to the tensor a model takes."""
