"""Where a release came from and what it promises, in the words of other tools: OpenLineage, ODCS, dbt, OpenMetadata."""
