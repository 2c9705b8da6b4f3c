"""Dates and timestamps that Python's classes do not hold: the infinities, those before Christ, those after 9999.

PostgreSQL counts days, or microseconds, from 2000 on; that is what codecs of the form "tuple" exchange.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Union

Becoming = Union[Literal["text", "clamp", "none"], Callable[[str], Any]]

_Decoder = Callable[[tuple[int]], Any]
_Encoder = Callable[[Any], tuple[int]]

_EPOCH = datetime.datetime(2000, 1, 1)
_EPOCH_ORDINAL = _EPOCH.toordinal()
_DAY = 86_400_000_000
_MICROSECOND = datetime.timedelta(microseconds=1)
# The calendar repeats itself after so many years and days.
_YEARS, _DAYS = 400, 146_097
_FIRST_DAY = datetime.date.min.toordinal() - _EPOCH_ORDINAL
_LAST_DAY = datetime.date.max.toordinal() - _EPOCH_ORDINAL
_TEXT = re.compile(
    r"(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?)?"
    r"(?P<zone>\+00(?::?00)?|Z)?(?P<bc> BC)?"
)


class Codec(NamedTuple):
    """A type's name, and the functions of its codec."""

    typename: str
    encoder: _Encoder
    decoder: _Decoder


def codecs(becoming: Becoming) -> list[Codec]:
    """The codecs of `date`, `timestamp` and `timestamptz` under which far values become what is said.

    Raises
    ------
    ValueError
        It is neither a word that is known nor a function.
    """
    return [
        _date_codec(becoming),
        _moment_codec("timestamp", None, becoming),
        _moment_codec("timestamptz", datetime.timezone.utc, becoming),
    ]


def _date_codec(becoming: Becoming) -> Codec:
    last = 2**31 - 1
    clamped = becoming == "clamp"
    far = _far(becoming, datetime.date.min, datetime.date.max)

    def decode(value: tuple[int]) -> Any:
        day = value[0]
        if _FIRST_DAY <= day <= _LAST_DAY:
            return datetime.date.fromordinal(day + _EPOCH_ORDINAL)
        return far(day, _infinity(day, last) or _date_text(day))

    def encode(value: Any) -> tuple[int]:
        if isinstance(value, str):
            return (_INFINITE[value] * last - (value[0] == "-") if value in _INFINITE else _read(value)[0],)
        if not isinstance(value, datetime.date):
            raise TypeError(f"expected a datetime.date, or PostgreSQL's text of a date, got {type(value).__name__!r}")
        day = value.toordinal() - _EPOCH_ORDINAL
        if clamped and day in (_FIRST_DAY, _LAST_DAY):
            return (last if day == _LAST_DAY else -last - 1,)
        return (day,)

    return Codec("date", encode, decode)


def _moment_codec(typename: str, zone: Any, becoming: Becoming) -> Codec:
    last = 2**63 - 1
    clamped = becoming == "clamp"
    epoch = _EPOCH.replace(tzinfo=zone)
    least, most = datetime.datetime.min.replace(tzinfo=zone), datetime.datetime.max.replace(tzinfo=zone)
    far = _far(becoming, least, most)

    def decode(value: tuple[int]) -> Any:
        micros = value[0]
        day, rest = divmod(micros, _DAY)
        if _FIRST_DAY <= day <= _LAST_DAY:
            return epoch + datetime.timedelta(day, 0, rest)
        text = _infinity(micros, last)
        if text is None:
            date, _, before_christ = _date_text(day).partition(" ")
            text = f"{date} {_clock_text(rest)}{'' if zone is None else '+00'}{before_christ and ' BC'}"
        return far(micros, text)

    def encode(value: Any) -> tuple[int]:
        if isinstance(value, str):
            if value in _INFINITE:
                return (_INFINITE[value] * last - (value[0] == "-"),)
            day, rest = _read(value)
            return (day * _DAY + rest,)
        moment = _as_datetime(value, zone)
        if clamped and moment in (least, most):
            return (last if moment == most else -last - 1,)
        return ((moment - epoch) // _MICROSECOND,)

    return Codec(typename, encode, decode)


_INFINITE = {"infinity": 1, "-infinity": -1}


def _infinity(value: int, last: int) -> Any:
    return "infinity" if value == last else "-infinity" if value == -last - 1 else None


def _far(becoming: Becoming, least: Any, most: Any) -> Callable[[int, str], Any]:
    """What is called with the number of a far value, whose sign says on which side it is, and its text."""
    if callable(becoming):
        return lambda number, text: becoming(text)
    if becoming == "text":
        return lambda number, text: text
    if becoming == "clamp":
        return lambda number, text: least if number < 0 else most
    if becoming == "none":
        return lambda number, text: None
    raise ValueError(f"decode_far_dates() expects 'text', 'clamp', 'none' or a function, got {becoming!r}")


def _as_datetime(value: Any, zone: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        # A naive one is in the machine's zone; one with a zone is refused by a naive epoch.
        return value if zone is None else value.astimezone(zone)
    if isinstance(value, datetime.date):
        midnight = datetime.datetime(value.year, value.month, value.day)
        return midnight if zone is None else midnight.astimezone(zone)
    raise TypeError(
        "expected a datetime.date or datetime.datetime, or PostgreSQL's text of one of them, "
        f"got {type(value).__name__!r}"
    )


def _date_text(day: int) -> str:
    """A date as PostgreSQL writes it, of the days since 2000."""
    cycle, rest = divmod(day + _EPOCH_ORDINAL - 1, _DAYS)
    date = datetime.date.fromordinal(rest + 1)
    year = date.year + cycle * _YEARS
    text = f"{year if year > 0 else 1 - year:04}-{date.month:02}-{date.day:02}"
    return text if year > 0 else f"{text} BC"


def _clock_text(micros: int) -> str:
    seconds, part = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{part:06}".rstrip("0") if part else text


def _read(text: str) -> tuple[int, int]:
    """The days since 2000 and the microseconds of the day of a text as those above; its zone is UTC."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(
            "expected a date as PostgreSQL writes it, such as '0044-03-15 BC', '10000-01-01' or 'infinity', "
            f"got {text!r}"
        )
    year = int(found["year"])
    cycle, rest = divmod((1 - year if found["bc"] else year) - 1, _YEARS)
    date = datetime.date(rest + 1, int(found["month"]), int(found["day"]))
    day = date.toordinal() + cycle * _DAYS - _EPOCH_ORDINAL
    if found["hour"] is None:
        return day, 0
    seconds = (int(found["hour"]) * 60 + int(found["minute"])) * 60 + int(found["second"])
    return day, seconds * 1_000_000 + int((found["part"] or "0").ljust(6, "0"))
