"""Component packs that the tests serve."""
