"""Mixing: labelled vectors in, noisy random mixtures of each class out (DP-CDA, soundly accounted)."""
