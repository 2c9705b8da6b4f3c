"""The connection's methods of codecs: values of a type that are turned by functions of the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional

from . import exceptions, far_dates, introspection, protocol

if TYPE_CHECKING:
    from .connection import Connection


async def _introspect_type(connection: Connection[Any], typename: str, schema: str) -> Any:
    if schema == "pg_catalog" and not typename.endswith("[]"):
        oid = protocol.BUILTIN_TYPE_NAME_MAP.get(typename.lower())
        if oid is not None:
            return introspection.TypeRecord((oid, None, b"b"))
    rows = await connection._statements.fetch_plain(introspection.TYPE_BY_NAME, (typename, schema), None)
    if not rows:
        raise ValueError(f"unknown type: {schema}.{typename}")
    return rows[0]


async def set_type_codec(
    self: Connection[Any],
    typename: str,
    *,
    schema: str = "public",
    encoder: Callable[[Any], Any],
    decoder: Callable[[Any], Any],
    format: str = "text",
) -> None:
    """Encode and decode values of a type by functions of the program.

    Parameters
    ----------
    typename : str
        The type's name: a base type or a composite.
    schema : str, default "public"
        The schema it is in; that of built-in types is "pg_catalog".
    encoder : callable
        Takes a value, and returns it in the form of `format`.
    decoder : callable
        Takes the form of `format`, and returns a value.
    format : {"text", "binary", "tuple"}
        The form that the functions exchange: str, bytes in the type's binary form, or a tuple, whose elements depend
        on the type (for a composite type its attributes).

    Raises
    ------
    InterfaceError
        The type is neither a base type nor a composite, or has no such form.
    UnsupportedClientFeatureError
        The type is a domain, or a composite and `format` is not "tuple".

    Examples
    --------
    >>> await connection.set_type_codec("json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    """
    self._check_open()
    settings = self._protocol.get_settings()
    typeinfo = await _introspect_type(self, typename, schema)
    parts: Any = []
    if introspection.is_scalar_type(typeinfo):
        kind = "scalar"
    elif introspection.is_composite_type(typeinfo):
        if format != "tuple":
            raise exceptions.UnsupportedClientFeatureError(
                "only tuple-format codecs can be used on composite types",
                hint="Use `set_type_codec(..., format='tuple')` and pass/interpret data as a Python tuple.",
            )
        kind = "composite"
        parts = await self._introspect_types((typeinfo["oid"],), 10)
    else:
        raise exceptions.InterfaceError(
            f"cannot use custom codec on type {schema}.{typename}: it is neither a scalar type nor a composite type"
        )
    if introspection.is_domain_type(typeinfo):
        raise exceptions.UnsupportedClientFeatureError(
            "custom codecs on domain types are not supported",
            hint="Set the codec on the base type.",
            detail="PostgreSQL does not distinguish domains from their base types in query results at the "
            "protocol level.",
        )
    settings.add_python_codec(typeinfo["oid"], typename, schema, parts, kind, encoder, decoder, format)
    self._statements.forget()


async def reset_type_codec(self: Connection[Any], typename: str, *, schema: str = "public") -> None:
    """Undo :meth:`set_type_codec`.

    Parameters
    ----------
    typename, schema : str
        As there.
    """
    typeinfo = await _introspect_type(self, typename, schema)
    self._protocol.get_settings().remove_python_codec(typeinfo["oid"], typename, schema)
    self._statements.forget()


async def set_builtin_type_codec(
    self: Connection[Any], typename: str, *, schema: str = "public", codec_name: Any, format: Optional[str] = None
) -> None:
    """Encode and decode values of a type like those of a built-in type.

    Parameters
    ----------
    typename, schema : str
        The type, whose form on the wire is that of the built-in type.
    codec_name : str or int
        The built-in type's name or number, or "pg_contrib.hstore".
    format : {"text", "binary"}, optional
        The only form to use; by default any form that exists.

    Raises
    ------
    InterfaceError
        The type is no base type, or there is no such codec.

    Examples
    --------
    >>> await connection.set_builtin_type_codec("hstore", codec_name="pg_contrib.hstore")
    """
    self._check_open()
    typeinfo = await _introspect_type(self, typename, schema)
    if not introspection.is_scalar_type(typeinfo):
        raise exceptions.InterfaceError(f"cannot alias non-scalar type {schema}.{typename}")
    self._protocol.get_settings().set_builtin_type_codec(
        typeinfo["oid"], typename, schema, "scalar", codec_name, format
    )
    self._statements.forget()


async def decode_json(
    self: Connection[Any], encoder: Callable[[Any], str] = json.dumps, decoder: Callable[[str], Any] = json.loads
) -> None:
    """Decode and encode json and jsonb values, which are text by default.

    Parameters
    ----------
    encoder, decoder : callable
        By default those of the module json.

    Examples
    --------
    >>> await connection.decode_json()
    >>> await connection.fetchval("select '[1, 2]'::jsonb")
    [1, 2]
    """
    for typename in ("json", "jsonb"):
        await self.set_type_codec(typename, schema="pg_catalog", encoder=encoder, decoder=decoder)


def keep_texts(self: Connection[Any]) -> None:
    """Have all values of results stay PostgreSQL's text, as psql shows them; NULL is None.

    From now on, on this connection; results as columns and COPY are not affected.

    Examples
    --------
    >>> connection.keep_texts()
    >>> await connection.fetchrow("select 0.1::real, interval '1 mon', date 'infinity', array['a', null]")
    <Record float4='0.1' interval='1 mon' date='infinity' array='{a,NULL}'>
    """
    self._check_open()
    self._protocol.get_settings().keep_texts()
    self._statements.forget()


async def decode_far_dates(self: Connection[Any], becoming: far_dates.Becoming = "text") -> None:
    """Choose the values for dates and timestamps that Python's classes cannot hold.

    These are the infinities, dates before Christ and dates after the year 9999. By default infinities are Python's
    first and last date or timestamp, also in arguments, and the other dates are errors. After
    this call all dates and timestamps are decoded by Python functions, which takes longer; :meth:`fetch_columns` is
    not affected.

    Parameters
    ----------
    becoming : {"text", "clamp", "none"} or callable
        PostgreSQL's text for them (`'infinity'`, `'0044-03-15 BC'`; of a timestamptz in UTC), which arguments may
        be too; Python's first or last moment; None; or what a function makes of the text.

    Examples
    --------
    >>> await connection.decode_far_dates()
    >>> await connection.fetchval("select date '0044-03-15 BC'")
    '0044-03-15 BC'
    >>> pool = howdah.create_pool(init=lambda connection: connection.decode_far_dates("none"))
    """
    for codec in far_dates.codecs(becoming):
        await self.set_type_codec(
            codec.typename, schema="pg_catalog", encoder=codec.encoder, decoder=codec.decoder, format="tuple"
        )
