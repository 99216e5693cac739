"""What several benchmarks share; modules here are not commands."""
