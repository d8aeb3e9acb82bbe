"""Texts in common formats, to convert and to check; `tools.py` says which. It takes no variables."""
