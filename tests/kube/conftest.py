"""What tests on a real Kubernetes control plane can use.

    plane                this worker's control plane, with our custom resources; made at the first need, ready in seconds
    second_plane         another one, for tests of two clusters
    namespace            a new namespace of `plane` for this test
    kubelet              the stand-in for what runs on nodes, for this test (`tests/kube/kubelet.py`)
    between              somebody between a client and `plane`, who can spoil what a test names (`tests/kube/between.py`)
    cluster              a namespace on a cluster with one card, where pods are bound to what they name
    cluster_of           function: the adapter from a kubeconfig's text, `into` a namespace; closed at the end of the test

Where the binaries are missing the tests are skipped, loudly; with GSHARE_TEST_REQUIRE_KUBE=1 they fail instead.
"""

from tests.kube.fixtures import between, cluster, cluster_of, kubelet, namespace, plane, second_plane

__all__ = ["between", "cluster", "cluster_of", "kubelet", "namespace", "plane", "second_plane"]
