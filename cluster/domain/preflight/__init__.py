"""The pre-flight test of a cluster: what keeps sessions from running on it, in words, each with what to do.

Guarantees: what could not be listed is a finding itself and is judged no further; the same facts give the same findings in the
same order, errors first. An `error` keeps sessions from running (all, or some), a `warning` bites later, a `note` is worth
knowing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from cluster.domain.preflight import checks_of_cluster, checks_of_hami
from cluster.domain.preflight.findings import Expected, Facts, Finding

__all__ = ["Expected", "Facts", "Finding", "preflight"]

_ORDER = ("error", "warning", "note")


def preflight(facts: Facts, expected: Expected) -> tuple[Finding, ...]:
    """All findings, the gravest first."""
    found = [*_unlisted(facts)]
    for check in (*checks_of_cluster.CHECKS, *checks_of_hami.CHECKS):
        found += check(facts, expected)
    # The same of one DaemonSet and of its nodes is one thing to do each, but never said twice.
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: _ORDER.index(finding.severity)))


def _unlisted(facts: Facts) -> Iterator[Finding]:
    for each in fields(facts):
        if getattr(facts, each.name) is None:
            what = each.name.replace("_", " ")
            yield Finding(
                "warning",
                "not_listed",
                each.name,
                f"The cluster's {what} could not be read; nothing is known of them.",
                "Apply deploy/rights/preflight.yaml for the time of the test, and test again.",
            )
