"""Other engines that do a stage's work: Dask counts, Great Expectations checks."""
