"""Answers with intervals: what released numbers say of a question, and how far noise and sampling may have moved it."""
