"""Kubernetes quantities: written in the form in which the API server keeps them, and compared by their value.

Format: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))((?:[eE][+-]?\d+)|[numkMGTPE]|[KMGTPE]i)?")
_FACTORS = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_MEBI = 2**20


def amount(quantity: object) -> Decimal | None:
    """The value of a quantity: ``9k`` and ``9000`` are the same; None for what is none."""
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int)):
        return None
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return number.scaleb(int(suffix[1:]))
    return number * _FACTORS[suffix] if suffix else number


def cores(milli: int) -> str:
    """Thousandths of a core: ``4``, ``2500m``."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def mebibytes(mib: int) -> str:
    """Memory: ``1536Mi``, ``8Gi``."""
    for power, suffix in ((2, "Ti"), (1, "Gi")):
        whole = 1024**power
        if mib and mib % whole == 0:
            return f"{mib // whole}{suffix}"
    return f"{mib}Mi"


def gibibytes(gib: int) -> str:
    """Storage: ``50Gi``, ``2Ti``."""
    return mebibytes(gib * 1024)


def whole_milli(quantity: object) -> int | None:
    """A quantity of cores in thousandths, floored; None for what is none or negative."""
    value = amount(quantity)
    return int(value * 1000) if value is not None and value >= 0 else None


def whole_mib(quantity: object) -> int | None:
    """A quantity of bytes in mebibytes, floored; None for what is none or negative."""
    value = amount(quantity)
    return int(value // _MEBI) if value is not None and value >= 0 else None


def whole(quantity: object) -> int | None:
    """A quantity of things, floored; None for what is none or negative."""
    value = amount(quantity)
    return int(value) if value is not None and value >= 0 else None
