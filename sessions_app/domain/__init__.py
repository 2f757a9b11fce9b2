"""The product's decisions as pure functions: life cycle, gates, queue, and what a report means."""
