"""Discovery and containment of components."""
