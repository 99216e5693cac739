"""The contract of a published table in the formats that other tools read: ODCS and dbt."""
