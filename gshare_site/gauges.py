"""Figures that are read from the rows when somebody asks for /metrics, so that they are true whichever process answers.

A database that is away leaves them out; the counters of the processes are still told.
"""

from collections import Counter
from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from accounts.audit import unsealed_count
from cluster.card_books import alarmed_drifts
from cluster.queries import cluster_states, refused_sweeps
from gshare_site.error_pages import AWAY
from sessions_app.queries import queue_lengths, rows


class RowGauges(Collector):
    """One statement a family."""

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: registering must not ask the database."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Sessions by state, waiting sessions by offering, clusters by state, refused sweeps, cards
        whose books disagree, audit entries that wait for their seal."""
        try:
            yield from [*_sessions(), _queue(), _clusters(), _sweeps(), _drifts(), _unsealed()]
        except AWAY:
            return


def _sessions() -> Iterator[GaugeMetricFamily]:
    family = GaugeMetricFamily("gshare_sessions", "Live sessions by state.", labels=["state"])
    for state, count in rows().live().values_list("state").annotate(Count("pk")).order_by("state"):
        family.add_metric([state], count)
    yield family


def _queue() -> GaugeMetricFamily:
    family = GaugeMetricFamily("gshare_queue_length", "Waiting sessions by offering.", labels=["offering"])
    for offering_id, count in queue_lengths().items():
        family.add_metric([str(offering_id)], count)
    return family


def _clusters() -> GaugeMetricFamily:
    family = GaugeMetricFamily("gshare_clusters", "Registered clusters by state.", labels=["state"])
    for state, count in Counter(cluster_states().values()).items():
        family.add_metric([state], count)
    return family


def _sweeps() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "gshare_sweep_refused_ends", "Pods that the sweep refuses to end without confirmation.", labels=["cluster"]
    )
    for name, ends in refused_sweeps().items():
        family.add_metric([name], ends)
    return family


def _drifts() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "gshare_card_drifts", "Cards about which pods, HAMi and claims disagree for too long.", labels=["cluster"]
    )
    for name, cards in alarmed_drifts().items():
        family.add_metric([name], cards)
    return family


def _unsealed() -> GaugeMetricFamily:
    return GaugeMetricFamily("gshare_audit_unsealed", "Audit entries that wait for their seal.", value=unsealed_count())
