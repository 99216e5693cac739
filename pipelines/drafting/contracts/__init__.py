"""Contracts about tables, told apart by what is in them: ODCS, dbt, JSON Schema, Frictionless, SDV."""
