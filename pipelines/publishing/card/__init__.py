"""The card: one page that says what a release is, how private, how good, and how it is used."""
