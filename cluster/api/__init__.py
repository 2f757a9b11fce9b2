"""`/api/v1`: clusters, nodes, cards, pools, volumes."""
