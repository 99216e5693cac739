"""The domain: what is public, what is private, and the mechanisms between. Imports no orchestrator."""
