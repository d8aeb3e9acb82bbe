"""Your server: its tools, resources, prompts and jobs, and what puts them together."""
