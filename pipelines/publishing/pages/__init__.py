"""Pages that people open: one look for all of them, no script, no request."""
