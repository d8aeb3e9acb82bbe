"""What the measured choices have in common: one form for figures, one command line, one page, BENCHMARKS.md."""
