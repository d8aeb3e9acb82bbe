"""Every request of a conversation may come to another replica."""
