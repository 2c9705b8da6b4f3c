"""Who is logged in: connections with the visitor's own user and password, in memory only."""

import asyncio
import contextlib
import math
import secrets
import time

import howdah

from howdah_console.ask import PRIMARY

# At most so many sessions, and connections of one.
MOST_SESSIONS = 200
CONNECTIONS = 4
# A guess takes at least so long, and few are tried at once.
FAILED_SECONDS = 0.7
LOGINS_AT_ONCE = 4
LONGEST_SECONDS = 12 * 3600
# So long after something was done, replicas may not know of it yet.
ACTED_SECONDS = 10


class Refused(Exception):
    """A login that did not succeed, in words for the visitor."""

    def __init__(self, message, status=403):
        super().__init__(message)
        self.message = message
        self.status = status


class Session:
    """One visitor: the user, connections as that user, and the token that each form carries."""

    def __init__(self, user, password, pool):
        self.user = user
        self.password = password
        self.pool = pool
        self.csrf = secrets.token_urlsafe(24)
        self.began = self.used = time.monotonic()
        # What was done, for the page that is shown next.
        self.done = None
        # Statements of the page of SQL that run, by their tokens: the process that runs each.
        self.running = {}
        # The forms of trainings that were asked for, by the ids of their jobs.
        self.forms = {}
        # When the page Watch asked last, and the calls of each model then.
        self.usage = (0.0, {})
        self._acted = -math.inf

    def act(self):
        """Something is done now that the pages from now on are to show."""
        self._acted = time.monotonic()

    def has_just_acted(self):
        """Whether replicas may not know yet what was done."""
        return time.monotonic() - self._acted < ACTED_SECONDS


class Sessions:
    """All sessions, by the secrets in their cookies."""

    def __init__(self, settings):
        self.settings = settings
        self._sessions = {}
        self._logins = asyncio.Semaphore(LOGINS_AT_ONCE)

    def find(self, secret, clicked=True):
        """The session of a cookie, or None. It lives on by clicks, not by what pages ask for by themselves."""
        session = self._sessions.get(secret)
        if session is None or self._ended(session):
            self.logout(secret)
            return None
        if clicked:
            session.used = time.monotonic()
        return session

    async def login(self, user, password):
        """The secret of a new session, or `Refused`."""
        if not user or not password:
            raise Refused("Enter a user and a password of the database.", 400)
        self._sweep()
        if len(self._sessions) >= MOST_SESSIONS:
            raise Refused("Too many people are logged in. Try again later.", 503)
        async with self._logins:
            try:
                pool = await self._connect(user, password)
            except Refused:
                await asyncio.sleep(FAILED_SECONDS)
                raise
        secret = secrets.token_urlsafe(32)
        self._sessions[secret] = Session(user, password, pool)
        return secret

    async def _connect(self, user, password):
        """A pool of connections, one of them open."""
        try:
            return await self._pool(user, password)
        except howdah.InvalidAuthorizationSpecificationError:
            raise Refused(f"The database refused the user “{user}” with this password.") from None
        except howdah.InterfaceError as error:
            if "authentication method" not in str(error):
                raise Refused(f"The console cannot log in: {error}", 502) from None
            raise Refused(
                "The server did not ask for a password, so the console cannot know who you are. "
                "Let it ask for one in pg_hba.conf (scram-sha-256), or start the console with a DSN of TCP."
            ) from None
        except howdah.PostgresError as error:
            raise Refused(f"The database says: {error}") from None
        except (OSError, TimeoutError, asyncio.TimeoutError):
            raise Refused(f"The server of {self.settings.place} does not answer. Is it running?", 503) from None

    async def _pool(self, user, password):
        pool = await howdah.create_pool(
            self.settings.target,
            min_size=0,
            max_size=CONNECTIONS,
            max_inactive_connection_lifetime=60,
            **self.options(user, password, self.settings.page_seconds),
        )
        try:
            await pool.fetchval("SELECT 1")
        except BaseException:
            pool.terminate()
            raise
        return pool

    def options(self, user, password, seconds):
        """How to connect as a user: nothing changes unless a transaction says so, and nothing takes long."""
        return {
            "user": user,
            "password": password,
            "timeout": 5,
            # The server ends a statement first; this is for a server that has gone.
            "command_timeout": seconds + 3,
            "server_settings": {
                "application_name": "howdah-console",
                "default_transaction_read_only": "on",
                "statement_timeout": f"{int(seconds * 1000)}",
                "lock_timeout": "2000",
                "idle_in_transaction_session_timeout": "60000",
            },
        }

    async def connect_apart(self, session, seconds):
        """A connection of its own, for a statement that the visitor wrote."""
        return await howdah.connect(self.settings.target, **self.options(session.user, session.password, seconds))

    async def is_there(self, session):
        """Raises unless the server answers; behind a pooler with replicas, the primary."""
        connection = None
        try:
            connection = await self.connect_apart(session, self.settings.page_seconds)
            await connection.execute(PRIMARY + "SELECT 1")
        except howdah.PostgresConnectionError:
            raise
        except (howdah.PostgresError, howdah.InterfaceError):
            # A refusal is an answer.
            pass
        finally:
            if connection is not None:
                connection.terminate()

    def logout(self, secret):
        """Ends a session."""
        if secret in self._sessions:
            self._forget(secret)

    def _sweep(self):
        for secret, session in list(self._sessions.items()):
            if self._ended(session):
                self._forget(secret)

    def _ended(self, session):
        now = time.monotonic()
        return now - session.used > self.settings.idle_seconds or now - session.began > LONGEST_SECONDS

    def _forget(self, secret):
        session = self._sessions.pop(secret)
        session.password = None
        session.pool.terminate()

    async def close(self):
        """Ends all sessions."""
        for secret in list(self._sessions):
            with contextlib.suppress(Exception):
                self._forget(secret)
