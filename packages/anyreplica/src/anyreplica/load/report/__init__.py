"""The report of a run: on the terminal, and as JSON, CSV and HTML files."""
