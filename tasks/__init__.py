"""One thin Prefect task per stage: retries, tags, artifacts, progress. The mathematics is in `pipelines`."""
