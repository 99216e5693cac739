"""Trees of tables: what is counted of them, and how."""
