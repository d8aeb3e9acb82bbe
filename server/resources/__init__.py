"""Resources: anyreplica serves every public function in this folder that has `@resource("scheme://…")`."""
