"""The methods, and what the flow asks of each of them."""
