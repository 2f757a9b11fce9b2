"""Small fleets that can be worked out by hand."""

from cluster.domain.fleet import Card, Node
from cluster.domain.placement import Fleet, Placement, Request
from cluster.domain.shapes import Host, Shape, tier_shape

HOST = Host(4_000, 8_192, 10)
H100_MIB = 81_559


def card(uuid, model="H100", vram_mib=H100_MIB, **fields):
    return Card(uuid, model, vram_mib, **({"slots": 16} | fields))


def node(name, *cards, **fields):
    values = {"cpu_milli": 128_000, "memory_mib": 524_288, "scratch_gib": 1_000} | fields
    return Node(name=name, cards=tuple(cards), **values)


def half_used(uuid, **fields):
    return card(uuid, used_vram_mib=40_779, used_milli=500, used_slots=1, **fields)


def tier(name, model="H100", **where):
    shape = tier_shape(name, offering_vram_mib=H100_MIB, host=HOST)
    assert isinstance(shape, Shape)
    return Request.for_shape(shape, models=(model,), **where)


def whole(cards, model="H100", **where):
    return Request(models=(model,), cards=cards, exclusive=True, cpu_milli=1_000, memory_mib=1_024, **where)


def fill(fleet: Fleet, request: Request) -> int:
    """Place and claim until nothing fits; how many did."""
    placed = 0
    while isinstance(found := fleet.place(request), Placement):
        fleet.claim(found)
        placed += 1
    return placed
