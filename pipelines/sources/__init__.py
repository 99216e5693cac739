"""Where the private rows are: one small class a kind of source."""
