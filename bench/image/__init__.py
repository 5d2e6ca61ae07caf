"""Images to measure with."""
