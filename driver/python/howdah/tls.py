"""TLS as libpq's parameters want it: modes, negotiation, certificates."""

from __future__ import annotations

import contextlib
import enum
import os
import pathlib
import ssl as ssl_module
import sys
from collections.abc import Iterator
from typing import Any, Final, Optional, Union

from . import compat, exceptions

# The protocol name by which PostgreSQL 17 and later tell a direct TLS connection from others.
_ALPN_PROTOCOLS: Final = ["postgresql"]

# libpq's word for the certificates that the system trusts.
_SYSTEM: Final = "system"

_File = Optional[Union[str, pathlib.Path]]


class SSLMode(enum.IntEnum):
    """libpq's `sslmode`, from none to all: what is encrypted, and what of the server's certificate is checked."""

    disable = 0
    allow = 1
    prefer = 2
    require = 3
    verify_ca = 4
    verify_full = 5

    @classmethod
    def parse(cls, sslmode: Union[str, SSLMode]) -> SSLMode:
        """The mode of libpq's name for it.

        Raises
        ------
        AttributeError
            There is no such mode.
        """
        if isinstance(sslmode, cls):
            return sslmode
        mode: SSLMode = getattr(cls, str(sslmode).replace("-", "_"))
        return mode


class SSLNegotiation(compat.StrEnum):
    """How TLS begins: after PostgreSQL's own request for it, or with the first byte."""

    postgres = "postgres"
    direct = "direct"


def _names(options: Any) -> str:
    return ", ".join(option.name.replace("_", "-") for option in options)


def negotiation(direct_tls: Optional[bool], name: Optional[str]) -> SSLNegotiation:
    """How TLS begins, by the argument `direct_tls`, else by libpq's `sslnegotiation` or its variable."""
    if direct_tls is not None:
        return SSLNegotiation.direct if direct_tls else SSLNegotiation.postgres
    if name is None:
        name = os.environ.get("PGSSLNEGOTIATION", SSLNegotiation.postgres.value)
    try:
        return SSLNegotiation(name)
    except ValueError:
        raise exceptions.ClientConfigurationError(
            f"`sslnegotiation` parameter must be one of: {_names(SSLNegotiation)}"
        ) from None


def checked_mode(ssl: Any, files: dict[str, Any]) -> Any:
    """The argument `ssl`, which is `verify-full` where nothing is said and the system's certificates are to be trusted.

    Raises
    ------
    ClientConfigurationError
        A weaker mode is asked for with them.
    """
    if _given(files, "sslrootcert", "PGSSLROOTCERT") != _SYSTEM:
        return ssl
    if ssl is None:
        return SSLMode.verify_full
    if isinstance(ssl, (str, SSLMode)) and str(ssl).replace("-", "_") not in ("verify_full", str(SSLMode.verify_full)):
        name = ssl.name.replace("_", "-") if isinstance(ssl, SSLMode) else ssl
        raise exceptions.ClientConfigurationError(
            f"weak sslmode {name!r} may not be used with sslrootcert=system (use 'verify-full')"
        )
    return ssl


def resolve(ssl: Any, files: dict[str, Any]) -> tuple[Any, SSLMode]:
    """The TLS context (or False) and the mode that the argument `ssl` stands for.

    Parameters
    ----------
    ssl : str, SSLMode, bool, ssl.SSLContext or None
        libpq's name of a mode, or Python's own ways to say it.
    files : dict
        libpq's ``sslcert``, ``sslkey``, ``sslpassword``, ``sslrootcert``, ``sslcrl``, ``ssl_min_protocol_version`` and
        ``ssl_max_protocol_version``, as far as they were given.
    """
    if isinstance(ssl, (str, SSLMode)):
        try:
            mode = SSLMode.parse(ssl)
        except AttributeError:
            raise exceptions.ClientConfigurationError(
                f"`sslmode` parameter must be one of: {_names(SSLMode)}"
            ) from None
        return (_context(mode, files) if mode > SSLMode.disable else False), mode
    if ssl is True:
        context = ssl_module.create_default_context()
        _offer_postgresql(context)
        return context, SSLMode.verify_full
    if isinstance(ssl, ssl_module.SSLContext):
        return ssl, SSLMode.require
    return ssl, SSLMode.disable


def _context(mode: SSLMode, files: dict[str, Any]) -> ssl_module.SSLContext:
    context = ssl_module.SSLContext(ssl_module.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode >= SSLMode.verify_full
    if mode < SSLMode.require:
        context.verify_mode = ssl_module.CERT_NONE
    else:
        _trust(context, mode, _given(files, "sslrootcert", "PGSSLROOTCERT"))
        _revoke(context, _given(files, "sslcrl", "PGSSLCRL"), _given(files, "sslcrldir", "PGSSLCRLDIR"))
    certmode = _given(files, "sslcertmode", "PGSSLCERTMODE") or "allow"
    if certmode not in ("disable", "allow"):
        raise exceptions.ClientConfigurationError(
            f"sslcertmode={certmode} is not supported; only disable or allow will do"
        )
    if certmode == "allow":
        _identify(context, files)
    log = files.get("sslkeylogfile") or os.environ.get("SSLKEYLOGFILE")
    if log and not sys.flags.ignore_environment:
        context.keylog_filename = log
    least = _given(files, "ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION")
    most = _given(files, "ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION")
    context.minimum_version = _parse_tls_version(least or "TLSv1.2")
    if most:
        context.maximum_version = _parse_tls_version(most)
    _offer_postgresql(context)
    return context


def _given(files: dict[str, Any], name: str, variable: str) -> Any:
    value = files.get(name)
    return os.environ.get(variable) if value is None else value


def _offer_postgresql(context: ssl_module.SSLContext) -> None:
    if ssl_module.HAS_ALPN:
        context.set_alpn_protocols(_ALPN_PROTOCOLS)


def _trust(context: ssl_module.SSLContext, mode: SSLMode, root: _File) -> None:
    """Load the certificates that the server's one is checked by. Without a file, `require` checks nothing."""
    detail = None
    if root == _SYSTEM:
        context.load_default_certs()
        context.verify_mode = ssl_module.CERT_REQUIRED
        return
    if root:
        with naming(root):
            context.load_verify_locations(cafile=root)
        context.verify_mode = ssl_module.CERT_REQUIRED
        return
    default = _dot_postgresql_path("root.crt")
    if default is None:
        detail = (
            "Could not determine location of user home directory (HOME is either unset, inaccessible, "
            "or does not point to a valid directory)"
        )
    else:
        try:
            context.load_verify_locations(cafile=default)
        except (FileNotFoundError, NotADirectoryError):
            pass
        else:
            context.verify_mode = ssl_module.CERT_REQUIRED
            return
    if mode == SSLMode.require:
        context.verify_mode = ssl_module.CERT_NONE
        return
    shown = default or "~/.postgresql/root.crt"
    raise exceptions.ClientConfigurationError(
        f'root certificate file "{shown}" does not exist or cannot be accessed',
        hint=f'Provide the certificate file directly or make sure "{shown}" exists and is readable.',
        detail=detail,
    )


def _revoke(context: ssl_module.SSLContext, revoked: _File, folder: _File) -> None:
    """Load the lists of revoked certificates; the one in the user's home only if it is there."""
    if folder:
        context.load_verify_locations(capath=folder)
        context.verify_flags |= ssl_module.VERIFY_CRL_CHECK_CHAIN
    if not revoked:
        default = _dot_postgresql_path("root.crl")
        if default is None or not default.exists():
            return
        revoked = default
    with naming(revoked):
        context.load_verify_locations(cafile=revoked)
    context.verify_flags |= ssl_module.VERIFY_CRL_CHECK_CHAIN


def _identify(context: ssl_module.SSLContext, files: dict[str, Any]) -> None:
    """Load the certificate of the client, if it has one."""
    key: _File = _given(files, "sslkey", "PGSSLKEY")
    if not key:
        default = _dot_postgresql_path("postgresql.key")
        key = default if default is not None and default.exists() else None
    password = files.get("sslpassword") or ""
    certificate = _given(files, "sslcert", "PGSSLCERT")
    if not certificate:
        certificate = _dot_postgresql_path("postgresql.crt")
        if certificate is None or not certificate.exists():
            return
    # Which of the two is missing, the module does not say.
    missing = certificate if key is None or not pathlib.Path(certificate).exists() else key
    with naming(missing):
        context.load_cert_chain(certificate, keyfile=key, password=lambda: password)


@contextlib.contextmanager
def naming(path: Union[str, pathlib.Path]) -> Iterator[None]:
    """Have an error about a file that cannot be read say which it is."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None and not isinstance(error, ssl_module.SSLError):
            error.filename = str(path)
        raise


def _parse_tls_version(tls_version: str) -> ssl_module.TLSVersion:
    if tls_version.startswith("SSL"):
        raise exceptions.ClientConfigurationError(f"Unsupported TLS version: {tls_version}")
    try:
        return ssl_module.TLSVersion[tls_version.replace(".", "_")]
    except KeyError:
        raise exceptions.ClientConfigurationError(f"No such TLS version: {tls_version}") from None


def _dot_postgresql_path(filename: str) -> Optional[pathlib.Path]:
    try:
        home = pathlib.Path.home()
    except (RuntimeError, KeyError):
        return None
    return (home / ".postgresql" / filename).resolve()
