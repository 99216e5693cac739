"""Several private tables as one tree: opened together, and bounded from the root down."""
