"""Token exchange: calls of an API with a token that the authorization server gives for the caller's token."""
