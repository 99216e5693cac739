"""What a copy gets wrong, from the private rows and without noise: for their owner alone, and never a gate."""
