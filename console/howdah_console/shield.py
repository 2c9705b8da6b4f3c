"""What surrounds every request: by which names browsers may come, what pages may load, and no form of strangers."""

import hmac
import urllib.parse

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LARGEST_BODY = 1 << 20


class Shield:
    """Answers 421 to other host names (a page elsewhere could have its name point here), and adds the headers."""

    def __init__(self, app, settings):
        self.app = app
        self.names = {name.lower() for name in settings.names}

    async def __call__(self, scope, receive, send):
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        is_static = scope["path"].startswith("/static/")

        async def send_shielded(message):
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.update(HEADERS)
                answer["Cache-Control"] = "public, max-age=86400" if is_static else "no-store"
            await send(message)

        host = urllib.parse.urlsplit("//" + headers.get("host", "")).netloc.rpartition("@")[2].lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self.names:
            refusal = PlainTextResponse(
                f"howdah-console is not known as {name[:100]!r}. Start it with --name for a name of your own.", 421
            )
            return await refusal(scope, receive, send_shielded)
        if scope["method"] == "POST" and is_foreign(headers, host):
            return await PlainTextResponse("This form came from another site.", 403)(scope, receive, send_shielded)
        return await self.app(scope, receive, send_shielded)


def is_foreign(headers, host):
    """Whether a browser says that another site sends this."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urllib.parse.urlsplit(origin).netloc.lower() != host


class TooLarge(Exception):
    """A form of more than `LARGEST_BODY` bytes."""


async def form(request):
    """The fields of a form as {name: value}; of several of one name the last."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise TooLarge
    pairs = urllib.parse.parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=5000)
    # Forms send line ends as CR LF.
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def is_token(given, expected):
    """Whether a form has the token."""
    return bool(expected) and hmac.compare_digest((given or "").encode(), expected.encode())
