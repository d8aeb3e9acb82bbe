"""Your server: the ASGI app, the settings, and the tools, resources, prompts and jobs."""
