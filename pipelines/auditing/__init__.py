"""Attacks on what the other rooms promise, on made tables: `understudy audit`. No private row is ever read here."""
