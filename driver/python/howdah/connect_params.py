"""From the arguments of `connect` to addresses and parameters.

What is wanted may be said in five places. In order: the arguments, the query and the other parts of the DSN, the
service file's section, the environment, and the defaults.
"""

from __future__ import annotations

import enum
import getpass
import ipaddress
import numbers
import os
import pathlib
import random
import re
import urllib.parse
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

from . import compat, exceptions, tls
from .passfile import PGPASSFILE, _read_password_from_pgpass

PG_SERVICEFILE = ".pg_service.conf"
_SYSTEMS_SERVICEFILE = "pg_service.conf"

DEFAULT_PORT = 5432

# Where servers on this machine are looked for when no host is given.
_LOCAL_HOSTS = ["/run/postgresql", "/var/run/postgresql", "/tmp", "/private/tmp", "localhost"]

# Parameters of a DSN or a service section, and the arguments that they stand for; others, in a DSN, are settings of
# the server.
_PARAMETERS = {
    "channel_binding": "channel_binding",
    "connect_timeout": "connect_timeout",
    "database": "database",
    "dbname": "database",
    "gsslib": "gsslib",
    "hostaddr": "hostaddr",
    "krbsrvname": "krbsrvname",
    "load_balance_hosts": "load_balance_hosts",
    "passfile": "passfile",
    "password": "password",
    "require_auth": "require_auth",
    "ssl_max_protocol_version": "ssl_max_protocol_version",
    "ssl_min_protocol_version": "ssl_min_protocol_version",
    "sslcert": "sslcert",
    "sslcertmode": "sslcertmode",
    "sslcrl": "sslcrl",
    "sslcrldir": "sslcrldir",
    "sslkey": "sslkey",
    "sslkeylogfile": "sslkeylogfile",
    "sslmode": "ssl",
    "sslnegotiation": "sslnegotiation",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
    "target_session_attrs": "target_session_attrs",
    "user": "user",
}

# What libpq knows besides, and there is nothing to do about here: the system's keepalives, its own log.
_FOR_LIBPQ_ALONE = frozenset(
    ("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "sslcompression", "tcp_user_timeout")
)

# What libpq can and the driver cannot, by the values that ask for nothing that it does not do anyway.
_REFUSED: dict[str, tuple[str, ...]] = {
    "gssdelegation": ("0",),
    "gssencmode": ("disable", "prefer"),
    "max_protocol_version": ("3.0", "3.2", "latest"),
    "min_protocol_version": ("3.0",),
    "oauth_client_id": (),
    "oauth_client_secret": (),
    "oauth_issuer": (),
    "oauth_scope": (),
    "requirepeer": (),
    "scram_client_key": (),
    "scram_server_key": (),
    "sslsni": ("1",),
}

# Settings of the server that have an environment variable.
_OF_ENVIRONMENT = {
    "PGAPPNAME": "application_name",
    "PGCLIENTENCODING": "client_encoding",
    "PGDATESTYLE": "datestyle",
    "PGGEQO": "geqo",
    "PGOPTIONS": "options",
    "PGTZ": "timezone",
}
# And parameters that the driver refuses, or takes with these values only.
_REFUSED_OF_ENVIRONMENT = {
    "PGGSSDELEGATION": "gssdelegation",
    "PGGSSENCMODE": "gssencmode",
    "PGMINPROTOCOLVERSION": "min_protocol_version",
    "PGMAXPROTOCOLVERSION": "max_protocol_version",
    "PGREQUIREPEER": "requirepeer",
    "PGSSLSNI": "sslsni",
}

# libpq's names of ways to log in.
_AUTH_METHODS = ("password", "md5", "gss", "sspi", "scram-sha-256", "none")

Address = Union[str, tuple[str, int]]


class _HostAddress(str):
    """The address of a host, which is known to TLS and to the password file by its name."""

    name: str


class SessionAttribute(str, enum.Enum):
    """What a server must be to be connected to: libpq's `target_session_attrs`."""

    any = "any"
    primary = "primary"
    standby = "standby"
    prefer_standby = "prefer-standby"
    read_write = "read-write"
    read_only = "read-only"


class _ConnectionParameters(NamedTuple):
    """What is sent to a server, and how it is reached."""

    user: str
    password: Any
    database: str
    ssl: Any
    sslmode: tls.SSLMode
    ssl_negotiation: tls.SSLNegotiation
    server_settings: Optional[dict[str, str]]
    target_session_attrs: SessionAttribute
    krbsrvname: Optional[str]
    gsslib: str
    channel_binding: Optional[str] = None
    connect_timeout: Optional[float] = None
    require_auth: Optional[list[str]] = None


class _ClientConfiguration(NamedTuple):
    """How the client itself behaves."""

    command_timeout: Optional[float]
    statement_cache_size: int
    max_cached_statement_lifetime: float
    max_cacheable_statement_size: int
    truncate: bool = False


def _validate_port_spec(hosts: Sequence[str], port: Any) -> list[Any]:
    """One port for each host."""
    if not isinstance(port, (list, tuple)):
        return [port] * len(hosts)
    if len(port) == 1:
        return [port[0]] * len(hosts)
    if len(port) != len(hosts):
        raise exceptions.ClientConfigurationError(f"could not match {len(port)} port numbers to {len(hosts)} hosts")
    return list(port)


def _environment_port() -> Any:
    """The port or ports of the environment, else the default."""
    spec = os.environ.get("PGPORT")
    if not spec:
        return DEFAULT_PORT
    ports = [_port(port, "the environment's PGPORT") for port in spec.split(",")]
    return ports if len(ports) > 1 else ports[0]


def _port(text: Any, place: str) -> int:
    """The number of a port that `place` says."""
    try:
        return int(text)
    except (TypeError, ValueError):
        raise exceptions.ClientConfigurationError(f"{place} is expected to be a port's number, got {text!r}") from None


def _parse_hostlist(hostlist: str, port: Any, *, unquote: bool = False) -> tuple[list[str], Any]:
    """The hosts of a list like ``a:1,[::1]:2,/tmp``, and their ports (`port`, if there is one).

    Raises
    ------
    ClientConfigurationError
        An address in it is malformed, or the ports are not as many as the hosts.
    """
    specs = hostlist.split(",")
    given = _validate_port_spec(specs, port) if port else None
    defaults = _validate_port_spec(specs, _environment_port()) if given is None else None
    hosts = []
    ports = []
    for position, spec in enumerate(specs):
        own: Optional[str] = None
        if spec.startswith("/"):
            address = spec
        elif spec.startswith("["):
            found = re.match(r"\[([^\]]+)\](?::([0-9]+))?", spec)
            if found is None:
                raise exceptions.ClientConfigurationError(f"invalid IPv6 address in the connection URI: {spec!r}")
            address, own = found.groups()
        else:
            address, _, own = spec.partition(":")
        hosts.append(urllib.parse.unquote(address) if unquote else address)
        if defaults is not None:
            own = urllib.parse.unquote(own) if own and unquote else own
            ports.append(_port(own, f"the port of the host {spec!r}") if own else defaults[position])
    return hosts, given if given is not None else ports


class _Wanted:
    """The values found so far; the first place that gives a value wins."""

    def __init__(self, host: Any, port: Any, **values: Any) -> None:
        self.host = host
        self.port = port
        self.values = values

    def offer(self, name: str, value: Any) -> None:
        if self.values.get(name) is None:
            self.values[name] = value

    def offer_hosts(self, hostlist: str, *, unquote: bool = False) -> None:
        if not self.host and hostlist:
            self.host, self.port = _parse_hostlist(hostlist, self.port, unquote=unquote)

    def take(self, parameters: dict[str, str]) -> None:
        """Take the parameters that are known out of `parameters`, leave the others."""
        ports = parameters.pop("port", "")
        if ports and not self.port:
            self.port = [_port(port, f"port={ports}") for port in ports.split(",")]
        self.offer_hosts(parameters.pop("host", ""))
        for name, argument in _PARAMETERS.items():
            if name in parameters:
                self.offer(argument, parameters.pop(name))


# A word of libpq's connection strings: a name, and a value that is quoted where it is empty or has spaces.
_WORD = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?=\s|$)", re.DOTALL)


def _take_words(wanted: _Wanted, dsn: str) -> dict[str, str]:
    """Take what libpq's `name=value` words say; gives those that only the server knows."""
    found: dict[str, str] = {}
    position = 0
    while position < len(dsn.rstrip()):
        word = _WORD.match(dsn, position)
        if word is None:
            raise exceptions.ClientConfigurationError(
                f"invalid connection string: name=value is expected at character {position + 1}",
                hint="A value with spaces is written in single quotes.",
            )
        name, quoted, plain = word.groups()
        found[name] = re.sub(r"\\(.)", r"\1", plain if quoted is None else quoted, flags=re.DOTALL)
        position = word.end()
    service = found.pop("service", "")
    if service and not wanted.values.get("service"):
        wanted.values["service"] = service
    wanted.take(found)
    return found


def _take_dsn(wanted: _Wanted, dsn: str) -> dict[str, str]:
    """Take what `dsn` says; gives the parameters in it that only the server knows."""
    if not isinstance(dsn, str):
        raise TypeError(f"dsn is expected to be a str, not {type(dsn).__name__}")
    if "://" not in dsn and "=" in dsn:
        return _take_words(wanted, dsn)
    parsed = urllib.parse.urlparse(dsn)
    if parsed.scheme not in ("postgresql", "postgres"):
        raise exceptions.ClientConfigurationError(
            f'invalid DSN: scheme is expected to be either "postgresql" or "postgres", got {parsed.scheme!r}'
        )
    credentials, at, hosts = parsed.netloc.partition("@")
    if not at:
        credentials, hosts = "", parsed.netloc
    wanted.offer_hosts(hosts, unquote=True)
    if parsed.path.strip("/"):
        wanted.offer("database", urllib.parse.unquote(parsed.path.removeprefix("/")))
    user, _, password = credentials.partition(":")
    if user:
        wanted.offer("user", urllib.parse.unquote(user))
    if password:
        wanted.offer("password", urllib.parse.unquote(password))
    if not parsed.query:
        return {}
    query = {name: values[-1] for name, values in urllib.parse.parse_qs(parsed.query, strict_parsing=True).items()}
    service = query.pop("service", "")
    if service and not wanted.values.get("service"):
        wanted.values["service"] = service
    wanted.take(query)
    return query


def _take_service(wanted: _Wanted) -> dict[str, str]:
    """Take what the section of the service in the service file says; gives what of it only the server knows.

    Raises
    ------
    ClientConfigurationError
        There is no such service, or its section is malformed.
    """
    service = wanted.values.get("service") or os.environ.get("PGSERVICE")
    if not service:
        return {}
    paths = []
    path = wanted.values.get("servicefile") or os.environ.get("PGSERVICEFILE")
    if path:
        paths.append(pathlib.Path(path))
    elif home := compat.get_pg_home_directory():
        paths.append(home / PG_SERVICEFILE)
    if directory := os.environ.get("PGSYSCONFDIR"):
        paths.append(pathlib.Path(directory) / _SYSTEMS_SERVICEFILE)
    for path in paths:
        section = _service(path, service)
        if section is not None:
            wanted.take(section)
            return section
    raise exceptions.ClientConfigurationError(
        f"definition of service {service!r} not found",
        hint=f"Services are sections of {' or '.join(map(str, paths)) or 'a file that PGSERVICEFILE names'}.",
    )


def _service(path: pathlib.Path, service: str) -> Optional[dict[str, str]]:
    """The parameters of the first section of a service in a file; what other sections hold does not matter."""
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise exceptions.ClientConfigurationError(f"the service file {str(path)!r} cannot be read: {error}") from error
    section: Optional[dict[str, str]] = None
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if section is not None:
                break
            if line == f"[{service}]":
                section = {}
        elif section is not None:
            name, equals, value = map(str.strip, line.partition("="))
            what = None if name and equals else "name=value is expected"
            if name == "service":
                what = "nested services are not supported"
            elif line.startswith("ldap"):
                what = "a service of LDAP is not supported"
            if what is not None:
                raise exceptions.ClientConfigurationError(
                    f"syntax error in service file {str(path)!r}, line {number}: {what}"
                )
            section.setdefault(name, value)
    return section


def _parse_connect_dsn_and_args(
    *,
    dsn: Optional[str],
    host: Any,
    port: Any,
    user: Optional[str],
    password: Any,
    passfile: Any,
    database: Optional[str],
    ssl: Any,
    service: Optional[str],
    servicefile: Any,
    direct_tls: Optional[bool],
    server_settings: Optional[dict[str, str]],
    target_session_attrs: Any,
    krbsrvname: Optional[str],
    gsslib: Optional[str],
) -> tuple[list[Address], _ConnectionParameters]:
    """The addresses to try, in order, and the parameters, from every place where they may be given."""
    wanted = _Wanted(
        host,
        port,
        user=user,
        password=password,
        passfile=passfile,
        database=database,
        ssl=ssl,
        service=service,
        servicefile=servicefile,
        target_session_attrs=target_session_attrs,
        krbsrvname=krbsrvname,
        gsslib=gsslib,
    )
    if password is not None and not isinstance(password, str) and not callable(password):
        raise exceptions.ClientConfigurationError(
            f"password is expected to be a str or a callable, not {type(password).__name__}"
        )
    extra = _take_dsn(wanted, dsn) if dsn else {}
    extra = _without_libpqs_own({**_take_service(wanted), **extra})
    given = _checked_settings(server_settings)
    known = {name.lower() for name in (*extra, *(given or ()))}
    extra.update(_environment_settings(known))
    if extra:
        server_settings = extra if given is None else {**extra, **given}
    values = wanted.values

    hosts, auth_hosts, ports = _hosts_and_ports(wanted)
    user = values["user"] if values["user"] is not None else os.environ.get("PGUSER") or getpass.getuser()
    password = _or_environment(values["password"], "PGPASSWORD")
    database = _or_environment(values["database"], "PGDATABASE")
    if database is None:
        database = user
    if password is None:
        password = _read_password_from_pgpass(
            passfile=_passfile(values["passfile"]), hosts=auth_hosts, ports=ports, database=database, user=user
        )

    addresses = [_address(name, number) for name, number in zip(hosts, ports)]
    addresses = _balanced(addresses, _or_environment(values.get("load_balance_hosts"), "PGLOADBALANCEHOSTS"))
    ssl = tls.checked_mode(_or_environment(values["ssl"], "PGSSLMODE"), values)
    if ssl is None and any(not isinstance(address, str) for address in addresses):
        ssl = tls.SSLMode.prefer
    negotiation = tls.negotiation(direct_tls, values.get("sslnegotiation"))
    context, sslmode = tls.resolve(ssl, values)
    if negotiation is tls.SSLNegotiation.direct and sslmode < tls.SSLMode.require:
        raise exceptions.ClientConfigurationError("direct TLS requires sslmode=require, verify-ca, or verify-full")
    parameters = _ConnectionParameters(
        user=user,
        password=password,
        database=database,
        ssl=context,
        sslmode=sslmode,
        ssl_negotiation=negotiation,
        server_settings=server_settings,
        target_session_attrs=_session_attribute(values["target_session_attrs"]),
        krbsrvname=_or_environment(values["krbsrvname"], "PGKRBSRVNAME"),
        gsslib=_gss_library(values["gsslib"]),
        channel_binding=_channel_binding(_or_environment(values.get("channel_binding"), "PGCHANNELBINDING")),
        connect_timeout=_connect_timeout(_or_environment(values.get("connect_timeout"), "PGCONNECT_TIMEOUT")),
        require_auth=_required_auth(_or_environment(values.get("require_auth"), "PGREQUIREAUTH")),
    )
    return addresses, parameters


def _or_environment(value: Any, variable: str) -> Any:
    return os.environ.get(variable) if value is None else value


def _hosts_and_ports(wanted: _Wanted) -> tuple[list[str], list[str], list[int]]:
    """The hosts, their names for the password file, and the port of each."""
    if not wanted.host:
        wanted.offer_hosts(os.environ.get("PGHOST", ""))
    hosts = wanted.host
    auth_hosts = None
    addresses = _or_environment(wanted.values.get("hostaddr"), "PGHOSTADDR")
    if addresses:
        hosts = _with_addresses(hosts, addresses.split(","))
        auth_hosts = [host.name if isinstance(host, _HostAddress) else host for host in hosts]
    if not hosts:
        auth_hosts = ["localhost"]
        hosts = ["localhost"] if compat.SYSTEM == "Windows" else list(_LOCAL_HOSTS)
    if not isinstance(hosts, (list, tuple)):
        hosts = [hosts]
    port = wanted.port or _environment_port()
    port = [_port(one, "port") for one in port] if isinstance(port, (list, tuple)) else _port(port, "port")
    return list(hosts), list(auth_hosts or hosts), _validate_port_spec(hosts, port)


def _with_addresses(hosts: Any, addresses: list[str]) -> list[str]:
    """The hosts, which are connected to by their addresses."""
    names = list(hosts) if isinstance(hosts, (list, tuple)) else [hosts] if hosts else addresses
    if len(names) != len(addresses):
        raise exceptions.ClientConfigurationError(
            f"could not match {len(names)} host names to {len(addresses)} hostaddr values"
        )
    found = []
    for name, address in zip(names, addresses):
        if not address:
            found.append(name)
            continue
        try:
            ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            raise exceptions.ClientConfigurationError(
                f"hostaddr is expected to be an IP address, got {address!r}"
            ) from None
        host = _HostAddress(address)
        host.name = name or address
        found.append(host)
    return found


def _balanced(addresses: list[Address], how: Optional[str]) -> list[Address]:
    """The addresses in the order in which they are tried."""
    if how not in (None, "", "disable", "random"):
        raise exceptions.ClientConfigurationError(
            f"load_balance_hosts is expected to be 'disable' or 'random', got {how!r}"
        )
    return random.sample(addresses, len(addresses)) if how == "random" else addresses


def _required_auth(words: Optional[str]) -> Optional[list[str]]:
    """The ways to log in that will do, by libpq's `require_auth`; None for all."""
    if not words:
        return None
    given = [word.strip() for word in words.split(",")]
    names = [word.removeprefix("!") for word in given]
    unknown = [name for name in names if name not in _AUTH_METHODS]
    if unknown:
        raise exceptions.ClientConfigurationError(
            f"require_auth is expected to be of {', '.join(_AUTH_METHODS)}, got {unknown[0]!r}"
        )
    negated = [word for word in given if word.startswith("!")]
    if negated and len(negated) != len(given):
        raise exceptions.ClientConfigurationError(f"require_auth mixes methods with negated ones: {words!r}")
    return [method for method in _AUTH_METHODS if method not in names] if negated else names


def _environment_settings(known: Collection[str]) -> dict[str, str]:
    """The settings of the server that the environment has, but for those that are known already."""
    found = {}
    for variable, name in _OF_ENVIRONMENT.items():
        value = os.environ.get(variable)
        if value and name not in known and value.lower() != "default":
            found[name] = value
    for variable, name in _REFUSED_OF_ENVIRONMENT.items():
        if value := os.environ.get(variable):
            _refuse(name, value, f"the environment's {variable}")
    return _without_auto(found)


def _refuse(name: str, value: str, place: str) -> None:
    """Refuse a parameter of libpq's that the driver does not have, or a value of it."""
    allowed = _REFUSED[name]
    if value not in allowed:
        instead = f"; only {' or '.join(allowed)} will do" if allowed else ""
        raise exceptions.ClientConfigurationError(f"{place}={value} is not supported{instead}")


def _without_auto(settings: dict[str, str]) -> dict[str, str]:
    """Leave out the encoding of the terminal, for which libpq's word is auto: text is Unicode here."""
    return {name: value for name, value in settings.items() if (name, value) != ("client_encoding", "auto")}


def _address(host: str, port: int) -> Address:
    if not host.startswith("/"):
        return host, port
    return host if ".s.PGSQL." in host else os.path.join(host, f".s.PGSQL.{port}")


def _passfile(path: Any) -> Optional[pathlib.Path]:
    path = _or_environment(path, "PGPASSFILE")
    if path is not None:
        return pathlib.Path(path)
    home = compat.get_pg_home_directory()
    return home / PGPASSFILE if home else None


def _checked_settings(settings: Any) -> Optional[dict[str, str]]:
    if settings is not None and not (
        isinstance(settings, dict)
        and all(isinstance(name, str) and isinstance(value, str) for name, value in settings.items())
    ):
        raise exceptions.ClientConfigurationError("server_settings is expected to be None or a Dict[str, str]")
    return settings


def _session_attribute(name: Any) -> SessionAttribute:
    if name is None:
        name = os.environ.get("PGTARGETSESSIONATTRS", SessionAttribute.any)
    try:
        return SessionAttribute(name)
    except ValueError:
        known = [attribute.value for attribute in SessionAttribute]
        raise exceptions.ClientConfigurationError(
            f"target_session_attrs is expected to be one of {known!r}, got {name!r}"
        ) from None


def _without_libpqs_own(parameters: dict[str, str]) -> dict[str, str]:
    """Leave out what is not for the server; what is asked for in vain is refused."""
    left = {}
    for name, value in parameters.items():
        if name in _REFUSED:
            _refuse(name, value, name)
        elif name not in _FOR_LIBPQ_ALONE:
            left[name] = value
    if (fallback := left.pop("fallback_application_name", None)) is not None:
        left.setdefault("application_name", os.environ.get("PGAPPNAME") or fallback)
    return _without_auto(left)


def _channel_binding(value: Optional[str]) -> Optional[str]:
    if value not in (None, "disable", "prefer", "require"):
        raise exceptions.ClientConfigurationError(
            f"channel_binding is expected to be 'disable', 'prefer' or 'require', got {value!r}"
        )
    return value


def _connect_timeout(value: Any) -> Optional[float]:
    """Seconds for one host; none where it is zero or less, as with libpq."""
    try:
        seconds = 0 if value is None else int(value)
    except ValueError:
        raise exceptions.ClientConfigurationError(
            f"connect_timeout is expected to be a number of seconds, got {value!r}"
        ) from None
    return float(seconds) if seconds > 0 else None


def _gss_library(name: Optional[str]) -> str:
    if name is None:
        name = os.environ.get("PGGSSLIB") or ("sspi" if compat.SYSTEM == "Windows" else "gssapi")
    if name not in ("gssapi", "sspi"):
        raise exceptions.ClientConfigurationError(f"gsslib parameter must be either 'gssapi' or 'sspi', got {name!r}")
    return name


def _parse_connect_arguments(
    *,
    command_timeout: Any,
    statement_cache_size: Any,
    max_cached_statement_lifetime: Any,
    max_cacheable_statement_size: Any,
    truncate: Any = False,
    **arguments: Any,
) -> tuple[list[Address], _ConnectionParameters, _ClientConfiguration]:
    """The addresses, the parameters and the client's own configuration that the arguments of `connect` stand for.

    Raises
    ------
    ValueError
        A size, a lifetime or the timeout is out of its range.
    ClientConfigurationError
        Another argument is.
    """
    sizes: Mapping[str, Any] = {
        "statement_cache_size": statement_cache_size,
        "max_cached_statement_lifetime": max_cached_statement_lifetime,
        "max_cacheable_statement_size": max_cacheable_statement_size,
    }
    for name, value in sizes.items():
        if value is None or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} is expected to be greater or equal to 0, got {value!r}")
    addresses, parameters = _parse_connect_dsn_and_args(**arguments)
    return (
        addresses,
        parameters,
        _ClientConfiguration(command_timeout=_checked_timeout(command_timeout), truncate=bool(truncate), **sizes),
    )


def check_connecting_timeout(timeout: Any) -> None:
    """Refuse what is no number of seconds to connect in."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, numbers.Real):
        raise TypeError(f"timeout is expected to be a number of seconds, got {timeout!r}")
    if not float(timeout) >= 0:
        raise ValueError(f"timeout is expected to be greater or equal to 0, got {timeout!r}")


def _checked_timeout(timeout: Any) -> Optional[float]:
    if timeout is None:
        return None
    try:
        seconds = 0.0 if isinstance(timeout, bool) else float(timeout)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ValueError(f"invalid command_timeout value: expected greater than 0 float (got {timeout!r})")
    return seconds
