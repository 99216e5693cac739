"""Values to codes and codes to values."""
