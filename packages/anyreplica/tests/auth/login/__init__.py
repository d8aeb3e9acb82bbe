"""Tests of the login of users, with an identity provider that runs on 127.0.0.1."""
