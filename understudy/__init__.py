"""Understudy publishes differentially private synthetic copies of warehouse tables."""

__version__ = "0.1.0"
