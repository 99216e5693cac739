"""The command line: words and tables; the work is done elsewhere."""
