"""Opening a connection: the addresses in turn, TLS or not, until one is what was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import socket
import ssl as ssl_module
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Optional

from . import compat, exceptions, protocol
from .connect_params import (
    PG_SERVICEFILE as PG_SERVICEFILE,
)
from .connect_params import (
    Address,
    SessionAttribute,
    _ClientConfiguration,
    _ConnectionParameters,
    _HostAddress,
)
from .connect_params import (
    _parse_connect_arguments as _parse_connect_arguments,
)
from .connect_params import (
    _parse_connect_dsn_and_args as _parse_connect_dsn_and_args,
)
from .connect_params import (
    _parse_hostlist as _parse_hostlist,
)
from .connect_params import (
    _validate_port_spec as _validate_port_spec,
)
from .passfile import PGPASSFILE as PGPASSFILE
from .tls import SSLMode as SSLMode
from .tls import SSLNegotiation as SSLNegotiation

_SSL_REQUEST_CODE = 80877103
_CANCEL_REQUEST_CODE = 80877102


class TLSUpgradeProto(asyncio.Protocol):
    """Waits for the one byte by which a server answers the request for TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        ssl_context: ssl_module.SSLContext,
        ssl_is_advisory: bool,
    ) -> None:
        self.on_data: asyncio.Future[bool] = loop.create_future()
        # Who was to wait for it may have been cancelled: nobody need hear how it went.
        self.on_data.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._server = f'PostgreSQL server at "{host}:{port}"'
        # Going on in the clear must have been allowed by the mode, and by the context too.
        self._clear_will_do = ssl_is_advisory and ssl_context.verify_mode == ssl_module.CERT_NONE

    def data_received(self, data: bytes) -> None:
        """Take the answer. More than a byte is somebody's attempt to have clear text taken for what follows TLS."""
        if self.on_data.done():
            return
        if data == b"S":
            self.on_data.set_result(True)
        elif data == b"N" and self._clear_will_do:
            self.on_data.set_result(False)
        elif data.startswith(b"E"):
            # What it says is not shown: anybody on the way could have written it.
            self._refuse("server sent an error response during SSL exchange; check the server logs for details")
        else:
            self._refuse("rejected SSL upgrade", joint=" ")

    def _refuse(self, what: str, joint: str = ": ") -> None:
        self.on_data.set_exception(ConnectionError(f"{self._server}{joint}{what}"))

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Pass the end of the connection on to who waits for the answer."""
        if not self.on_data.done():
            self.on_data.set_exception(exc or ConnectionError("unexpected connection_lost() call"))


class _RetryConnectSignal(Exception):
    """The attempt failed in a way that the other transport (TLS or clear) may not; the error is its cause."""


class _NextHostSignal(Exception):
    """The server cannot be used now, another one may; the error is its cause."""


async def _create_ssl_connection(
    protocol_factory: Callable[[], Any],
    host: str,
    port: int,
    *,
    loop: asyncio.AbstractEventLoop,
    ssl_context: ssl_module.SSLContext,
    ssl_is_advisory: bool = False,
    retry: bool = False,
) -> tuple[asyncio.Transport, Any]:
    """Connect, ask for TLS and set it up; with `ssl_is_advisory`, go on in the clear if the server has none."""
    transport, upgrade = await loop.create_connection(
        lambda: TLSUpgradeProto(loop, host, port, ssl_context, ssl_is_advisory), host, port
    )
    encrypted = False
    try:
        transport.write(struct.pack("!ll", 8, _SSL_REQUEST_CODE))
        encrypted = await upgrade.on_data
        if encrypted:
            secured = await loop.start_tls(transport, upgrade, ssl_context, server_hostname=_name(host))
            if secured is None:
                raise ConnectionError("connection closed during TLS handshake")
        else:
            secured = transport
    except BaseException as error:
        transport.close()
        if retry and encrypted and isinstance(error, OSError) and not isinstance(error, asyncio.TimeoutError):
            raise _RetryConnectSignal from error
        raise
    session = protocol_factory()
    session.is_ssl = encrypted
    session.connection_made(secured)
    secured.set_protocol(session)
    return secured, session


async def _open_transport(
    protocol_factory: Callable[[], Any],
    addr: Address,
    params: _ConnectionParameters,
    loop: asyncio.AbstractEventLoop,
    retry: bool = False,
) -> tuple[Any, Any]:
    if isinstance(addr, str):
        with _naming(OSError, addr):
            return await loop.create_unix_connection(protocol_factory, addr)
    with _naming(socket.gaierror, addr[0]):
        return await _open_tcp(protocol_factory, addr, params, loop, retry)


@contextlib.contextmanager
def _naming(kind: type[OSError], place: str) -> Iterator[None]:
    """Have errors of a kind say which socket is not there, or which host has no address."""
    try:
        yield
    except kind as error:
        if error.errno is not None and error.filename is None:
            error.filename = place
        raise


def _name(host: str) -> str:
    """The name that the certificate of a host has to have."""
    return host.name if isinstance(host, _HostAddress) else host


async def _open_tcp(
    protocol_factory: Callable[[], Any],
    addr: Any,
    params: _ConnectionParameters,
    loop: asyncio.AbstractEventLoop,
    retry: bool,
) -> tuple[Any, Any]:
    if not params.ssl:
        return await loop.create_connection(protocol_factory, *addr)
    if params.ssl_negotiation is SSLNegotiation.direct:
        return await loop.create_connection(protocol_factory, *addr, ssl=params.ssl, server_hostname=_name(addr[0]))
    advisory = params.sslmode == SSLMode.prefer
    return await _create_ssl_connection(
        protocol_factory,
        *addr,
        loop=loop,
        ssl_context=params.ssl,
        ssl_is_advisory=advisory,
        retry=retry and advisory,
    )


async def _connect_addr(
    *,
    addr: Address,
    loop: asyncio.AbstractEventLoop,
    params: _ConnectionParameters,
    config: _ClientConfiguration,
    connection_class: Any,
    record_class: Any,
) -> Any:
    """Connect to one address; under the modes `allow` and `prefer` the other way too, if the first one fails."""
    given = params
    if callable(params.password):
        password = params.password()
        if inspect.isawaitable(password):
            password = await password
        params = params._replace(password=password)

    async def attempt(params: _ConnectionParameters, retry: bool) -> Any:
        session, transport = await _start_session(addr, params, record_class, loop, retry)
        try:
            if not hasattr(session.get_settings(), "server_version"):
                raise exceptions.ProtocolError("the server has not said which version it is")
            connection = connection_class(session, transport, loop, addr, config, given)
        except BaseException:
            transport.abort()
            raise
        session.set_connection(connection)
        return connection

    clear = params._replace(ssl=None)
    if isinstance(addr, str) or params.sslmode not in (SSLMode.allow, SSLMode.prefer):
        return await attempt(params, retry=False)
    first, second = (clear, params) if params.sslmode == SSLMode.allow else (params, clear)
    try:
        return await attempt(first, retry=True)
    except _RetryConnectSignal as signal:
        first_error = signal.__cause__
    assert first_error is not None
    try:
        return await attempt(second, retry=False)
    except _NextHostSignal as signal:
        assert signal.__cause__ is not None
        signal.__cause__.__cause__ = first_error
        raise
    except BaseException as second_error:
        # "Wrong password" says more than "not without TLS".
        if (
            isinstance(first_error, exceptions.InvalidPasswordError)
            and not isinstance(second_error, exceptions.InvalidPasswordError)
            and isinstance(
                second_error,
                (exceptions.InvalidAuthorizationSpecificationError, exceptions.ConnectionDoesNotExistError),
            )
        ):
            raise first_error from None
        raise second_error from first_error


async def _start_session(
    addr: Address,
    params: _ConnectionParameters,
    record_class: Any,
    loop: asyncio.AbstractEventLoop,
    retry: bool,
) -> tuple[Any, Any]:
    """Open a transport and go through the start-up of the protocol on it."""
    connected = loop.create_future()

    def factory() -> Any:
        return protocol.Protocol(addr, connected, params, record_class, loop)

    try:
        transport, session = await _open_transport(factory, addr, params, loop, retry)
    except BaseException:
        # The session may have begun already, and nobody is going to ask how it went.
        if not connected.done():
            connected.cancel()
        elif not connected.cancelled():
            connected.exception()
        raise
    try:
        await connected
    except exceptions.PostgresError as error:
        transport.close()
        if params.password is None and error.hint is None and isinstance(error, exceptions.InvalidPasswordError):
            error.hint = "No password was given: not as an argument, nor by PGPASSWORD or a password file."
        if session._auth_received:
            raise
        if isinstance(error, exceptions.CannotConnectNowError):
            raise _NextHostSignal from error
        # Only if the other way has not been tried: `prefer` may have gone on in the clear by itself.
        if retry and (params.sslmode == SSLMode.prefer) == bool(session.is_ssl):
            raise _RetryConnectSignal from error
        raise
    except BaseException:
        transport.close()
        raise
    return session, transport


def _accept_in_hot_standby(should_be_in_hot_standby: bool) -> Callable[[Any], Awaitable[bool]]:
    async def can_be_used(connection: Any) -> bool:
        # Reported at the start since PostgreSQL 14; older servers have to be asked.
        status = getattr(connection.get_settings(), "in_hot_standby", None)
        if status is None:
            standby = bool(await connection.fetchval("SELECT pg_catalog.pg_is_in_recovery()"))
        else:
            standby = status == "on"
        return standby == should_be_in_hot_standby

    return can_be_used


def _accept_read_only(should_be_read_only: bool) -> Callable[[Any], Awaitable[bool]]:
    in_standby = _accept_in_hot_standby(should_be_read_only)

    async def can_be_used(connection: Any) -> bool:
        if getattr(connection.get_settings(), "default_transaction_read_only", "off") == "on":
            return should_be_read_only
        return await in_standby(connection)

    return can_be_used


async def _accept_any(connection: Any) -> bool:
    return True


target_attrs_check: dict[SessionAttribute, Callable[[Any], Awaitable[bool]]] = {
    SessionAttribute.any: _accept_any,
    SessionAttribute.primary: _accept_in_hot_standby(False),
    SessionAttribute.standby: _accept_in_hot_standby(True),
    SessionAttribute.prefer_standby: _accept_in_hot_standby(True),
    SessionAttribute.read_write: _accept_read_only(False),
    SessionAttribute.read_only: _accept_read_only(True),
}


async def _can_use_connection(connection: Any, attr: SessionAttribute) -> bool:
    return await target_attrs_check[attr](connection)


async def _connect(
    *, loop: Optional[asyncio.AbstractEventLoop], connection_class: Any, record_class: Any, **kwargs: Any
) -> Any:
    """Connect to the first address whose server is what `target_session_attrs` asks for."""
    if loop is None:
        loop = asyncio.get_event_loop()
    addresses, params, config = _parse_connect_arguments(**kwargs)
    wanted = params.target_session_attrs
    opened = []
    chosen = None
    last_error: Optional[BaseException] = None
    try:
        for address in addresses:
            try:
                async with compat.timeout(params.connect_timeout):
                    connection = await _connect_addr(
                        addr=address,
                        loop=loop,
                        params=params,
                        config=config,
                        connection_class=connection_class,
                        record_class=record_class,
                    )
                opened.append(connection)
                if await _can_use_connection(connection, wanted):
                    chosen = connection
                    break
            except (OSError, asyncio.TimeoutError) as error:
                last_error = error
                seconds = params.connect_timeout
                if seconds is not None and isinstance(error, asyncio.TimeoutError) and not error.args:
                    last_error = asyncio.TimeoutError(
                        f"no answer from {address} in connect_timeout={seconds:g} seconds"
                    )
            except _NextHostSignal as signal:
                last_error = signal.__cause__
        else:
            # No standby: any of the others will do, each as likely, so that they share the load.
            if wanted == SessionAttribute.prefer_standby and opened:
                chosen = random.choice(opened)
    finally:
        # Not closed politely: that would make a good connection wait for bad ones.
        for connection in opened:
            if connection is not chosen:
                connection.terminate()
    if chosen is not None:
        return chosen
    message = f"None of the hosts match the target attribute requirement {wanted!r}"
    if last_error is None:
        raise exceptions.TargetServerAttributeNotMatched(message)
    if opened:
        raise exceptions.TargetServerAttributeNotMatched(
            f"{message}: {len(opened)} of {len(addresses)} could be asked, the last error is {last_error}"
        ) from last_error
    raise last_error


class _CancelProto(asyncio.Protocol):
    """Waits until the server has closed the connection: then it has passed the request on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.on_disconnect: asyncio.Future[None] = loop.create_future()
        self.is_ssl = False

    def connection_lost(self, exc: Optional[Exception]) -> None:
        if not self.on_disconnect.done():
            self.on_disconnect.set_result(None)


async def _cancel(
    *,
    loop: asyncio.AbstractEventLoop,
    addr: Address,
    params: _ConnectionParameters,
    backend_pid: int,
    backend_secret: Any,
) -> None:
    """Ask the server at `addr` to cancel what the backend is doing, over a connection of its own.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        The loop that the connection is on.
    addr : str or tuple
        Where the server listens: the path of a socket, or a host and a port.
    params : _ConnectionParameters
        How the connection was made; the request takes the same TLS mode.
    backend_pid : int
        The process id of the backend, as it reported it.
    backend_secret : int or bytes
        The key that it reported with it; more than four bytes of it since protocol 3.2.
    """
    if params.sslmode == SSLMode.allow:
        params = params._replace(ssl=None)
    key = backend_secret if isinstance(backend_secret, bytes) else struct.pack("!I", backend_secret & 0xFFFFFFFF)
    transport = None
    try:
        transport, waiter = await _open_transport(lambda: _CancelProto(loop), addr, params, loop)
        transport.write(struct.pack("!lll", 12 + len(key), _CANCEL_REQUEST_CODE, backend_pid) + key)
        await waiter.on_disconnect
    finally:
        if transport is not None:
            transport.close()


def _get_socket(transport: asyncio.BaseTransport) -> Any:
    found = transport.get_extra_info("socket")
    if found is None:
        raise ConnectionError(f"could not get the socket for transport {transport!r}")
    return found


def _set_nodelay(sock: socket.socket) -> None:
    if not hasattr(socket, "AF_UNIX") or sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _create_future(loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
    return loop.create_future()
