"""Mean-and-covariance synthesis: noisy moments, a Gaussian copula, and the paper's randomness-of-generation mode."""
