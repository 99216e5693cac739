"""The demo: an invented clinic and the release of it."""
