"""A release as the public sees it: its manifest, its card and where both are put."""
