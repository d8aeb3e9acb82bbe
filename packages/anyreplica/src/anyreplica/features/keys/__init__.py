"""The feature *keys*: keys of the operator, and tokens of an issuer (AUTH_JWT_ISSUER)."""
