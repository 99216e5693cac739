"""Tables in files, on disk or in object stores."""
