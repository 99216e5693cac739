"""PrivPGD (Donhauser et al. 2024): tables from noisy marginals by particle gradient descent."""
