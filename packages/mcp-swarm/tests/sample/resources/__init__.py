"""Resources: every public function with `@resource("scheme://…")` in this folder is served."""
