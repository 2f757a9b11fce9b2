"""The few statements that every admission and every report runs, compiled once.

Guarantees: the same rows, locks, conversions and model instances as the ORM gives; what is saved is putting the SQL
together again each time, which costs several times what PostgreSQL needs to run it (`bench queue`, `bench admission`).
Refuses: `select_related` and annotations of a `Prepared`; signals and `save()` overrides are not called, and there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db import connection, models

M = TypeVar("M", bound=models.Model)


def sample(number: int) -> UUID:
    """A stand-in for an id that no row has."""
    return UUID(int=2**128 - 1 - number)


class Prepared(Generic[M]):
    """A queryset whose filter values alone change from call to call.

    `build` makes the queryset from its arguments; `samples` are stand-ins for them, each unlike the others and unlike every
    other value in the queryset, which tell where the arguments go. `tail` is a lock that the ORM cannot say.
    """

    def __init__(self, build: Callable[..., models.QuerySet[M]], *samples: object, tail: str = "") -> None:
        self._build, self._samples, self._tail = build, samples, tail
        self._ready: _Compiled[M] | None = None

    def __call__(self, *arguments: object) -> list[M]:
        """The rows for these arguments, as instances."""
        if self._ready is None:
            self._ready = _Compiled(self._build(*self._samples), self._samples, self._tail)
        return self._ready.run(arguments)

    def first(self, *arguments: object) -> M | None:
        """The first of them."""
        found = self(*arguments)
        return found[0] if found else None


class _Compiled(Generic[M]):
    def __init__(self, rows: models.QuerySet[M], samples: Sequence[object], tail: str) -> None:
        compiler = rows.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        self._sql = f"{sql} {tail}"
        self._slots = [_slot(value, samples) for value in parameters]
        if {slot for slot, _value in self._slots if slot is not None} != set(range(len(samples))):
            raise ValueError("every argument of a prepared queryset is a value that its filters compare with")
        self._model: type[M] = rows.model
        columns = [field for field, _sql, _alias in compiler.select]
        self._converters = [
            (place, converters, expression)
            for place, (converters, expression) in compiler.get_converters(columns).items()
        ]
        self._names = [field.attname for field in rows.model._meta.concrete_fields]

    def run(self, arguments: Sequence[object]) -> list[M]:
        parameters: list[Any] = [value if slot is None else arguments[slot] for slot, value in self._slots]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, parameters)
            found = cursor.fetchall()
        return [self._model.from_db(connection.alias, self._names, self._converted(row)) for row in found]

    def _converted(self, row: Sequence[Any]) -> Sequence[Any]:
        if not self._converters:
            return row
        values = list(row)
        for place, converters, expression in self._converters:
            for convert in converters:
                values[place] = convert(values[place], expression, connection)
        return values


def _slot(value: object, samples: Sequence[object]) -> tuple[int | None, object]:
    """Which argument a parameter is; None for one that is always the same."""
    for place, sample in enumerate(samples):
        if isinstance(value, type(sample)) and value == sample:
            return place, None
    return None, value


def insert(*instances: models.Model) -> None:
    """Insert rows of one model, all columns as they are."""
    sql, fields = _insert(type(instances[0]))
    with connection.cursor() as cursor:
        for instance in instances:
            cursor.execute(sql, _values(instance, fields))
            state = instance._state  # noqa: SLF001 -- as the ORM does after an insert
            state.adding, state.db = False, connection.alias


def update(instance: models.Model, names: Iterable[str] | None = None) -> None:
    """Write the row's columns (all but its key, or those named) where its key is. Raises when there is no such row."""
    sql, fields = _update(type(instance), tuple(names) if names is not None else None)
    with connection.cursor() as cursor:
        cursor.execute(sql, [*_values(instance, fields), instance.pk])
        if cursor.rowcount != 1:
            raise ObjectDoesNotExist(f"{instance._meta.label} {instance.pk} is gone")


def delete(model: type[models.Model], key: Any) -> None:
    """Delete the row of this key, if there is one; nothing else may refer to it."""
    with connection.cursor() as cursor:
        cursor.execute(_delete(model), [key])


@lru_cache(maxsize=64)
def _delete(model: type[models.Model]) -> str:
    return f"DELETE FROM {_quoted(model._meta.db_table)} WHERE {_quoted(model._meta.pk.column)} = %s"  # noqa: S608 -- own names


def upsert(instance: models.Model, *, on: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Insert a row, or write the columns `names` of the one that has the same `on` (a unique constraint's fields)."""
    sql, fields = _upsert(type(instance), on, names)
    with connection.cursor() as cursor:
        cursor.execute(sql, _values(instance, fields))


@lru_cache(maxsize=64)
def _upsert(model: type[models.Model], on: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    sql, fields = _insert(model)
    columns = {field.name: _quoted(field.column) for field in fields}
    sets = ", ".join(f"{columns[name]} = excluded.{columns[name]}" for name in names)
    return f"{sql} ON CONFLICT ({', '.join(columns[name] for name in on)}) DO UPDATE SET {sets}", fields


def _values(instance: models.Model, fields: Iterable[Any]) -> list[Any]:
    return [field.get_db_prep_save(getattr(instance, field.attname), connection) for field in fields]


@lru_cache(maxsize=256)
def _insert(model: type[models.Model]) -> tuple[str, tuple[Any, ...]]:
    fields = tuple(model._meta.concrete_fields)
    columns, places = ", ".join(_quoted(field.column) for field in fields), ", ".join(["%s"] * len(fields))
    return f"INSERT INTO {_quoted(model._meta.db_table)} ({columns}) VALUES ({places})", fields  # noqa: S608 -- own names


@lru_cache(maxsize=256)
def _update(model: type[models.Model], names: tuple[str, ...] | None) -> tuple[str, tuple[Any, ...]]:
    all_fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    fields = tuple(field for field in all_fields if names is None or {field.name, field.attname} & set(names))
    if names is not None and len(fields) != len(set(names)):
        raise ValueError(f"{model.__name__} has not all of {', '.join(names)}")
    sets = ", ".join(f"{_quoted(field.column)} = %s" for field in fields)
    key = _quoted(model._meta.pk.column)
    return f"UPDATE {_quoted(model._meta.db_table)} SET {sets} WHERE {key} = %s", fields  # noqa: S608 -- own names


def _quoted(name: str | None) -> str:
    assert name is not None, "concrete fields have columns"
    return connection.ops.quote_name(name)
