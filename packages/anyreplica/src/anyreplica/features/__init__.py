"""The features of a replica. Each folder is one feature, and no feature imports another."""
