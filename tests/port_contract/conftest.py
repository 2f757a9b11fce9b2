"""The adapter of Kubernetes is held against a real API server."""

from tests.kube.fixtures import kubelet, plane

__all__ = ["kubelet", "plane"]
