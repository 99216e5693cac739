"""The kernel method: a generator trained on privately released kernel mean embeddings."""
