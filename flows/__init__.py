"""Prefect flows, each of which reads as a sentence, and the command line."""
