"""Marginals: which ones, counted exactly, and released with noise."""
