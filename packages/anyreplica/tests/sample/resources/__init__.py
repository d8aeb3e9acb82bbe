"""Resources: the server serves every public function with `@resource("scheme://…")` in this folder."""
