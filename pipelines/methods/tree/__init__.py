"""Several tables as one release: its plan, its one purchase, and what that tells."""
