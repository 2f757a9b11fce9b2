"""A cluster that does not answer is left alone for a while, then tried by one."""

import pytest

from cluster.adapters.kube.circuit import Circuit
from cluster.port import Unavailable


@pytest.fixture
def clock():
    return {"now": 100.0}


@pytest.fixture
def circuit(clock):
    return Circuit(failures=3, first_pause=5, longest_pause=12, now=lambda: clock["now"])


def fail(circuit, times):
    for _ in range(times):
        circuit.enter()
        circuit.fail()


def is_open(circuit):
    try:
        circuit.enter()
    except Unavailable:
        return True
    return False


def test_some_failures_in_a_row_open_it_and_a_success_between_them_does_not(circuit):
    fail(circuit, 2)
    circuit.enter()
    circuit.succeed()
    fail(circuit, 2)
    assert not is_open(circuit)

    circuit.fail()

    with pytest.raises(Unavailable, match="asked again in 5 s"):
        circuit.enter()


def test_after_the_pause_one_tries_and_the_others_still_wait(circuit, clock):
    fail(circuit, 3)
    clock["now"] += 5

    circuit.enter()

    assert is_open(circuit)
    circuit.succeed()
    assert not is_open(circuit)


def test_each_failed_try_doubles_the_pause_up_to_the_longest(circuit, clock):
    fail(circuit, 3)
    for pause in (5, 10, 12, 12):
        clock["now"] += pause - 1
        assert is_open(circuit)
        clock["now"] += 1
        circuit.enter()
        circuit.fail()


def test_a_success_makes_the_next_pause_a_short_one(circuit, clock):
    fail(circuit, 3)
    clock["now"] += 5
    fail(circuit, 1)
    clock["now"] += 10
    circuit.enter()
    circuit.succeed()

    fail(circuit, 3)

    clock["now"] += 5
    assert not is_open(circuit)
