"""Noise, drawn exactly from uniform words: the rounded Gaussian, private choices, Poisson samples."""
