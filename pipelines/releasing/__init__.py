"""One release, whoever runs it: what is asked of the ledger, what is measured, what is published."""
