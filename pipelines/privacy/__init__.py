"""The privacy core: what neighbours are, what was released, what it costs, where noise comes from, who paid."""
