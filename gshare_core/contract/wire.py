"""How documents are read: frozen models, scalars with bounds, rows that fail alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

CLAIM_PATTERN = r"vol-[a-z0-9]([a-z0-9-]{0,57}[a-z0-9])?"
PATH_PATTERN = r"(/[A-Za-z0-9._-]{1,64})+"
NODE_PATTERN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"


class Document(BaseModel):
    """A callback's or list's part: snake_case on the wire."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Resource(BaseModel):
    """A part of a custom resource: camelCase on the wire, snake_case in Python."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    def to_wire(self) -> dict[str, Any]:
        """The JSON form, camelCase, nulls kept."""
        return self.model_dump(mode="json", by_alias=True)


AppName = Literal["lab", "code", "terminal"]
AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]
CardMode = Literal["hami-core", "mig", "mps"]
NodeName = Annotated[str, Field(pattern=rf"^{NODE_PATTERN}$")]
CardUuid = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9-]+$")]
# Numbers end where the receiver's columns end, so that what can be read can also be kept.
SMALL_MAX = 2**31 - 1
BIG_MAX = 2**63 - 1
Positive = Annotated[int, Field(ge=1, le=SMALL_MAX)]
Small = Annotated[int, Field(ge=0, le=SMALL_MAX)]
Natural = Annotated[int, Field(ge=0, le=BIG_MAX)]
Percent = Annotated[int, Field(ge=0, le=100)]


def _storable(text: str) -> str:
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("NUL characters and lone surrogates cannot be kept")
    return text


def _plausible(moment: datetime) -> datetime:
    """Moments at the ends of the calendar leave it when clocks or zones are taken into account."""
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"a time between {_FIRST_YEAR} and {_LAST_YEAR} is needed")
    return moment


_FIRST_YEAR, _LAST_YEAR = 2000, 2200
Text = Annotated[str, AfterValidator(_storable)]
Moment = Annotated[AwareDatetime, AfterValidator(_plausible)]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read: where it stood and why, without its content."""

    where: str
    why: str


_Row = TypeVar("_Row", bound=BaseModel)


def as_mapping(payload: object, what: str) -> Mapping[str, Any]:
    """The payload as an object of JSON. Raises ValueError when it is none."""
    if not isinstance(payload, Mapping):
        raise ValueError(f"the {what} must be an object")  # noqa: TRY004 (bad input, whatever its type)
    return payload


def as_rows(rows: object) -> Iterable[object]:
    """The rows of a list; what is no list is one row, which then cannot be read."""
    return rows if isinstance(rows, (list, tuple)) else (rows,)


def read_rows(model: type[_Row], rows: object, where: str) -> tuple[tuple[_Row, ...], tuple[BadRow, ...]]:
    """The rows that can be read, and those that cannot, named by their place."""
    good: list[_Row] = []
    bad: list[BadRow] = []
    for index, row in enumerate(as_rows(rows)):
        try:
            good.append(model.model_validate(row))
        except ValidationError as error:
            bad.append(BadRow(f"{where}[{index}]", explain(error)))
    return tuple(good), tuple(bad)


def explain(error: ValidationError) -> str:
    """What is wrong, field by field, without echoing the values that were sent."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'document'}: {problem['msg']}" for problem in problems)
