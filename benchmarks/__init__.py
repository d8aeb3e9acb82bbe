"""Studies: each measures one claim about this project with real processes."""
