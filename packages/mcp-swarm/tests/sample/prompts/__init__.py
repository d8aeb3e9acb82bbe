"""Prompts: every public function with `@prompt` in this folder is served."""
