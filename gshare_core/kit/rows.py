"""The few statements that every admission and every report runs, compiled once, and sent together where nobody waits.

Guarantees: the same rows, locks, conversions and model instances as the ORM gives; what is saved is putting the SQL
together again each time, which costs several times what PostgreSQL needs to run it, and waiting for each (`bench queue`,
`bench admission`). Inside `together()` writes are kept and sent in one round trip, in their order, before the next
statement that is not one of them and at the end: whoever reads sees what was written before.
Refuses: `select_related` and annotations of a `Prepared`; signals and `save()` overrides are not called, and there are none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db import connection, models
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.types.json import Jsonb

from gshare_core.kit.parameters import Parameters, wide

M = TypeVar("M", bound=models.Model)


@contextmanager
def prepared() -> Iterator[Any]:
    """A cursor whose statements the server binds, and prepares when they come again; for SQL of our own with typed values.

    Whole numbers go as 64-bit ones, so that what does not fit a column is refused and not cut off. A list that stands as
    `(SELECT %s)::uuid[]` is one whose length PostgreSQL does not look at, so that it keeps its plan; else it makes one for each list.
    """
    connection.ensure_connection()
    driver: Any = connection.connection
    usual, driver.cursor_factory = driver.cursor_factory, ServerBindingCursor
    try:
        cursor = connection.cursor()
    finally:
        driver.cursor_factory = usual
    with cursor:
        yield cursor


@dataclass(frozen=True, slots=True)
class _Write:
    """A statement whose rows nobody asks for; `then` hears how many there were."""

    sql: str
    parameters: Parameters
    then: Callable[[int], None] | None


@dataclass(frozen=True, slots=True)
class _Several:
    """Rows of one table that are written in the same way, to go as one statement that is made when it is sent."""

    table: str
    how: object
    """What makes two of them the same statement."""
    make: Callable[[Sequence[Any]], _Write]
    rows: dict[Any, Any]
    """What is written, by key: a row that is written twice is two statements."""


@dataclass
class _Pending:
    """What has been written in a block and not been sent; `busy` while it is being sent."""

    writes: list[_Write | _Several] = field(default_factory=list)
    busy: bool = False

    def add(self, one: _Several) -> None:
        """Put it with what is written in the same way, unless something since then is about the same table."""
        for other in reversed(self.writes):
            if isinstance(other, _Write):
                if one.table in other.sql:
                    break
            elif other.table == one.table:
                if other.how == one.how and not other.rows.keys() & one.rows.keys():
                    other.rows.update(one.rows)
                    return
                break
        self.writes.append(one)

    def send(self) -> None:
        """Send everything in one round trip, in its order; raises what PostgreSQL refused."""
        kept, self.writes = self.writes, []
        writes = [one if isinstance(one, _Write) else one.make(list(one.rows.values())) for one in kept]
        if not writes:
            return
        self.busy = True
        try:
            counts = _sent(writes)
        finally:
            self.busy = False
        for write, count in zip(writes, counts, strict=True):
            if write.then is not None:
                write.then(count)

    def __call__(self, execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        """Before any other statement, what was written before it; what a rollback undoes is not sent at all."""
        if sql.startswith("ROLLBACK TO SAVEPOINT"):
            self.writes.clear()  # the savepoint was sent, and before it whatever is older
        elif not self.busy:
            self.send()
        return execute(sql, parameters, many, context)


_pending: ContextVar[_Pending | None] = ContextVar("gshare_pending_writes", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Inside a transaction: writes are sent together (see above). Joins a block that is open; a fault sends nothing."""
    if _pending.get() is not None:
        yield
        return
    pending = _Pending()
    token = _pending.set(pending)
    try:
        with connection.execute_wrapper(pending):
            yield
            pending.send()
    finally:
        _pending.reset(token)


def write(sql: str, parameters: Parameters, then: Callable[[int], None] | None = None) -> None:
    """Run a statement that returns nothing, now or with the others of the block; `then` hears how many rows it changed."""
    pending = _pending.get()
    if pending is not None:
        pending.writes.append(_Write(sql, parameters, then))
        return
    _write_now(_Write(sql, parameters, then))


def _write_now(one: _Write) -> None:
    with prepared() as cursor:
        cursor.execute(one.sql, wide(one.parameters))
        if one.then is not None:
            one.then(cursor.rowcount)


def _write_several(several: _Several) -> None:
    pending = _pending.get()
    if pending is not None:
        pending.add(several)
    else:
        _write_now(several.make(list(several.rows.values())))


def counts(statements: Sequence[tuple[str, Parameters]]) -> list[int]:
    """How many rows each statement changes; sent in one round trip, with what is pending before them."""
    pending = _pending.get()
    if pending is None:
        return _sent([_Write(sql, parameters, None) for sql, parameters in statements])
    found: list[int] = []
    pending.writes += [_Write(sql, parameters, found.append) for sql, parameters in statements]
    pending.send()
    return found


def _sent(writes: Sequence[_Write]) -> list[int]:
    """How many rows each changed."""
    if len(writes) == 1:
        with prepared() as cursor:
            cursor.execute(writes[0].sql, wide(writes[0].parameters))
            return [cursor.rowcount]
    connection.ensure_connection()
    assert connection.connection is not None
    with ExitStack() as stack, connection.wrap_database_errors, connection.connection.pipeline() as pipeline:
        cursors = [stack.enter_context(prepared()) for _write in writes]
        for cursor, one in zip(cursors, writes, strict=True):
            cursor.execute(one.sql, wide(one.parameters))
        pipeline.sync()
        return [cursor.rowcount for cursor in cursors]


def sample(number: int) -> UUID:
    """A stand-in for an id that no row has."""
    return UUID(int=2**128 - 1 - number)


@dataclass(frozen=True, slots=True)
class Each:
    """A stand-in for a list of any length, which an `…__in` filter compares with; the argument is a list."""

    sample: object


class Prepared(Generic[M]):
    """A queryset whose filter values alone change from call to call.

    `build` makes the queryset from its arguments; `samples` are stand-ins for them, each unlike the others and unlike every
    other value in the queryset, which tell where the arguments go; for a list an `Each`. `tail` is a lock that the ORM
    cannot say.
    """

    def __init__(self, build: Callable[..., models.QuerySet[M]], *samples: object, tail: str = "") -> None:
        self._build, self._samples, self._tail = build, samples, tail
        self._ready: _Compiled[M] | None = None

    def __call__(self, *arguments: object) -> list[M]:
        """The rows for these arguments, as instances."""
        if self._ready is None:
            given = [[one.sample] if isinstance(one, Each) else one for one in self._samples]
            self._ready = _Compiled(self._build(*given), self._samples, self._tail)
        return self._ready.run(arguments)

    def first(self, *arguments: object) -> M | None:
        """The first of them."""
        found = self(*arguments)
        return found[0] if found else None


_IN_ONE = "IN (%s)"


class _Compiled(Generic[M]):
    def __init__(self, rows: models.QuerySet[M], samples: Sequence[object], tail: str) -> None:
        compiler = rows.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        lists = sum(isinstance(one, Each) for one in samples)
        if sql.count(_IN_ONE) != lists:
            raise ValueError("a list is compared with in one `…__in` filter, and nothing else is")
        self._sql = f"{sql.replace(_IN_ONE, '= ANY(%s)')} {tail}"
        self._slots = [
            _slot(value, [one.sample if isinstance(one, Each) else one for one in samples]) for value in parameters
        ]
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
        with prepared() as cursor:
            cursor.execute(self._sql, wide(parameters))
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
    """Insert rows of one model, all columns as they are; one statement, the same for any number of rows.

    The rows go as one text: with a parameter for each column the driver takes the long statement apart again each time,
    and PostgreSQL plans one for each number of rows.
    """
    model = type(instances[0])
    sql, fields = _insert_all(model)
    rows = {instance.pk: _columns(instance, fields) for instance in instances}
    if len(rows) != len(instances):
        raise ValueError(f"two of these {model.__name__} rows have one key")

    def make(rows: Sequence[dict[str, Any]]) -> _Write:
        return _Write(sql, [_text(rows)], None)

    _write_several(_Several(model._meta.db_table, sql, make, rows))
    for instance in instances:
        state = instance._state  # noqa: SLF001 -- as the ORM does after an insert
        state.adding, state.db = False, connection.alias


def update(instance: models.Model, names: Iterable[str] | None = None) -> None:
    """Write the row's columns (all but its key, or those named) where its key is. Raises when there is no such row.

    Several rows of a block whose same columns are written go as one statement.
    """
    model, named = type(instance), tuple(names) if names is not None else None
    sql, fields = _update(model, named)
    values, key = _values(instance, fields), instance.pk

    def make(rows: Sequence[tuple[Any, list[Any]]]) -> _Write:
        def check(count: int) -> None:
            if count != len(rows):
                gone = ", ".join(str(key) for key, _values in rows)
                raise ObjectDoesNotExist(f"{model._meta.label} is gone: {'one of ' * (len(rows) > 1)}{gone}")

        if len(rows) == 1:
            return _Write(sql, [*rows[0][1], rows[0][0]], check)
        several, columns, own = _update_all(model, named)
        said = [dict(zip(columns, values, strict=True)) | {own: key} for key, values in rows]
        return _Write(several, [_text(said)], check)

    _write_several(_Several(model._meta.db_table, sql, make, {key: (key, values)}))


def delete(model: type[models.Model], key: Any) -> None:
    """Delete the row of this key, if there is one; nothing else may refer to it. Several of a block go as one statement."""

    def make(keys: Sequence[Any]) -> _Write:
        return _Write(_delete(model), [list(keys)], None)

    _write_several(_Several(model._meta.db_table, _delete(model), make, {key: key}))


@lru_cache(maxsize=64)
def _delete(model: type[models.Model]) -> str:
    return f"DELETE FROM {_quoted(model._meta.db_table)} WHERE {_quoted(model._meta.pk.column)} = ANY(%s)"  # noqa: S608 -- own names


def upsert(instance: models.Model, *, on: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Insert a row, or write the columns `names` of the one that has the same `on` (a unique constraint's fields)."""
    sql, fields = _upsert(type(instance), on, names)
    write(sql, _values(instance, fields))


@lru_cache(maxsize=64)
def _upsert(model: type[models.Model], on: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    sql, fields = _insert(model)
    columns = {field.name: _quoted(field.column) for field in fields}
    sets = ", ".join(f"{columns[name]} = excluded.{columns[name]}" for name in names)
    return f"{sql} ON CONFLICT ({', '.join(columns[name] for name in on)}) DO UPDATE SET {sets}", fields


def _columns(instance: models.Model, fields: Sequence[Any]) -> dict[str, Any]:
    return {field.column: value for field, value in zip(fields, _values(instance, fields), strict=True)}


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(rows, default=_as_text, ensure_ascii=False, allow_nan=False)


def _values(instance: models.Model, fields: Iterable[Any]) -> list[Any]:
    return [field.get_db_prep_save(getattr(instance, field.attname), connection) for field in fields]


@lru_cache(maxsize=64)
def _insert_all(model: type[models.Model]) -> tuple[str, tuple[Any, ...]]:
    fields, table = tuple(model._meta.concrete_fields), _quoted(model._meta.db_table)
    columns = ", ".join(_quoted(field.column) for field in fields)
    source = f"SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s)"  # noqa: S608 -- own names
    return f"INSERT INTO {table} ({columns}) {source}", fields


def _as_text(value: object) -> object:
    """A column's value as PostgreSQL reads it from text. Raises TypeError for what has no such text here."""
    if isinstance(value, Jsonb):
        return value.obj
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of a row")


@lru_cache(maxsize=64)
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


@lru_cache(maxsize=256)
def _update_all(model: type[models.Model], names: tuple[str, ...] | None) -> tuple[str, tuple[str, ...], str]:
    """The statement for any number of rows, the columns it sets, and the key's."""
    _sql, fields = _update(model, names)
    table, own = _quoted(model._meta.db_table), model._meta.pk.column
    assert own is not None
    columns = tuple(field.column for field in fields)
    sets = ", ".join(f"{_quoted(column)} = new.{_quoted(column)}" for column in columns)
    source = f"json_populate_recordset(NULL::{table}, %s) AS new"
    sql = f"UPDATE {table} AS old SET {sets} FROM {source} WHERE old.{_quoted(own)} = new.{_quoted(own)}"  # noqa: S608 -- own names
    return sql, columns, own


def _quoted(name: str | None) -> str:
    assert name is not None, "concrete fields have columns"
    return connection.ops.quote_name(name)
