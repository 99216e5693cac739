"""Domains that nobody can type: what a spec leaves open, bought once."""
