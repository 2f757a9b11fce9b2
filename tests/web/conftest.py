"""Fixtures of the door: real listeners and a real application behind them."""

from tests.door.fixtures import _processes, app, gate, listeners, sign_in

__all__ = ["_processes", "app", "gate", "listeners", "sign_in"]
