"""Rows of a tree of tables from what was released of it, roots first."""
