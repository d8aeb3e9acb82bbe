"""Generates the pages of docs/reference and the files of the Helm chart that come from other files."""
