"""The words that every room of GShare uses: money, quantities, time, ids, errors, verdicts and the cluster contract.

Nothing here knows a model or a setting. Everything but `kit` is pure Python without Django.
"""
