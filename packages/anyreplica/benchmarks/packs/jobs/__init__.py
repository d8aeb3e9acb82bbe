"""Two small jobs."""
