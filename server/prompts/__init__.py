"""Prompts: anyreplica serves every public function in this folder that has the decorator `@prompt`."""
