"""What is told to the orchestrator and to people, and what is withheld from both."""
