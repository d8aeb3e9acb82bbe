"""Prompts: the server serves every public function with `@prompt` in this folder."""
