"""What the command line has decided, for all parts of the console."""

import urllib.parse
from dataclasses import dataclass, field

# The server must have asked for a password: otherwise whoever reaches the console's port would log in as the account
# that the console runs as, or as anybody where the server trusts its own machine.
PASSWORD_ONLY = "scram-sha-256,md5,password"


@dataclass(frozen=True)
class Settings:
    """How this console runs; a `dsn` that nobody could log in by is a ValueError."""

    dsn: str
    port: int = 8484
    names: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    actions: bool = False
    # For a statement that a page asks; for one on the page of SQL; for a reading of a whole table that was asked for.
    page_seconds: float = 5
    sql_seconds: float = 30
    # A table of more rows is read only when the visitor asks for it, and by a sample.
    rows_unasked: int = 1_000_000
    # DSNs of the consoles of poolers; what each becomes is (target, place).
    pooler_dsns: tuple[str, ...] = ()
    idle_seconds: float = 30 * 60
    secure: bool = False
    target: str = field(init=False)
    user: str = field(init=False)
    place: str = field(init=False)
    poolers: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self):
        target, user, place = read_dsn(self.dsn)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "user", user)
        object.__setattr__(self, "place", place)
        poolers = [read_dsn(dsn) for dsn in self.pooler_dsns]
        object.__setattr__(self, "poolers", tuple((target, place) for target, _, place in poolers))

    def means(self):
        """What visitors may do."""
        return "with actions" if self.actions else "read-only; --actions allows changes"


def read_dsn(dsn):
    """The DSN without its user but with the demand for a password, the user, and the place for people."""
    if "://" not in dsn:
        raise ValueError(f"the DSN is expected to be a URI such as postgresql://127.0.0.1:5432/app, got {dsn[:20]!r}")
    parts = urllib.parse.urlsplit(dsn)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"the DSN is expected to begin with postgresql://, got {parts.scheme}://")
    if parts.password:
        raise ValueError("the DSN has a password, which the console does not use: each visitor logs in with their own")
    hosts = parts.netloc.rpartition("@")[2]
    options = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    shown = next((value for name, value in options if name == "host"), hosts) or "the default server"
    options = [(name, value) for name, value in options if name not in ("require_auth", "user", "password")]
    query = urllib.parse.urlencode([*options, ("require_auth", PASSWORD_ONLY)])
    target = f"{parts.scheme}://{hosts}{parts.path}?{query}"
    name = urllib.parse.unquote(parts.path.lstrip("/"))
    return target, urllib.parse.unquote(parts.username or ""), f"{name} on {shown}" if name else shown
