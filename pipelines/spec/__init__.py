"""The release spec: its model, how it is read, and the words in it."""
