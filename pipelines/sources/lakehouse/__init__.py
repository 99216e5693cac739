"""Lakehouse tables: versions that can be named and read again."""
