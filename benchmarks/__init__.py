"""Measurements: `python -m benchmarks NAME --data DIR [--only PREFIX]` prints one JSON line a figure."""
