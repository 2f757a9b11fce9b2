"""The operator: makes what the control plane wants, reports what is, on one cluster.

Guarantees: never two pods of one session at once; a run that is gone is never made again; every report is sent until
it is acknowledged, over a restart of either side; a restart of the operator touches no running session.
Knows no Django, no database, no money. Imports `gshare_core` (not its kit) and `cluster.domain` only.
"""
