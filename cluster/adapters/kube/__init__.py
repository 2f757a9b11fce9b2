"""The adapter of Kubernetes clusters: `kube_cluster` makes the port of a registered one.

Parts: `references` (where a kubeconfig is found), `kubeconfig` and `addresses` (what it may say), `connection`, `circuit` and `api`
(calls of an API server), `cluster` (the port itself).
"""

from cluster.adapters.kube.cluster import KubeCluster, kube_cluster

__all__ = ["KubeCluster", "kube_cluster"]
