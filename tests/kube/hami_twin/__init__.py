"""A twin of HAMi's scheduler, 2.10.0: its filter and its bind, for tests on machines without HAMi.

Guarantees: it answers as the real one was recorded to answer (``recorded.jsonl.xz``, ``tests/kube/test_hami_twin.py``): the same
cards in the same order, the same words of refusal, the same annotations, and the same known faults (empty slots dropped,
a cordon that is not live, the phantom reservation of a pod whose second filter failed).
Written from HAMi's documented behaviour; it shares no code with the operator, so that both cannot be wrong together.
Differences: it knows NVIDIA cards only; equal nodes are taken in the order in which they were asked (HAMi: by chance); cards
beyond twelve with equal scores keep their order (HAMi: unstable); a reservation carries its MIG placement at once (HAMi:
with the pod's next event).

Parts: `words`, `register` (what a node says of its cards), `requests` (what a pod asks for), `allocations` (how a choice
is written down), `mig`, `fit` (one node), `usage` (what is taken), `scheduler` (filter and bind over a port to the cluster),
`extender` (HTTP, as kube-scheduler calls it), `memory` and `rest` (the port: in memory, a real API server).
"""

from tests.kube.hami_twin.extender import Extender
from tests.kube.hami_twin.memory import MemoryCluster
from tests.kube.hami_twin.scheduler import Config, Twin

__all__ = ["Config", "Extender", "MemoryCluster", "Twin"]
