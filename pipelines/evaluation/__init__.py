"""The papers' metrics: how close a synthetic table is to the real one. For internal use; scores are not
private.
"""
