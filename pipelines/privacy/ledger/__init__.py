"""Who may spend, who has spent, and the protocol by which noise is drawn exactly once."""
