"""What is public about a table, and values to codes and back."""
