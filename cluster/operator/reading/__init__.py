"""What a Kubernetes cluster shows, as the operator's own words: pure functions of the objects that the API server lists.

Guarantees: what cannot be read is said and never counts as zero or as gone; messages to people carry the container's, the
scheduler's or the kubelet's own words; nothing here asks anybody or changes anything.

Parts: `nodes` (inventory rows), `pods` (a session's pod, its phase and troubles). Objects are read tolerantly by
`cluster.domain.kube`.
"""
