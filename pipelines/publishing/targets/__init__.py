"""Where a release goes: each target shows a whole release or the one before it."""
