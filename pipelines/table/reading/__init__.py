"""Values as they stand in Arrow columns, read totally and row by row."""
