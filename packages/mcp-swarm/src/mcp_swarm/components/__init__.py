"""What authors write (tools, resources, prompts, jobs, checks): found, contained, limited, cached."""
