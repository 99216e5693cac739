"""What only reproduces the papers: their metrics, figures, networks, and theorems that are never charged."""
