"""In and out."""

import re
import secrets

from starlette.responses import RedirectResponse

from howdah_console.sessions import Refused
from howdah_console.shield import TooLarge, form, is_token


def _cookie(console, response, name, value, **more):
    response.set_cookie(name, value, httponly=True, samesite="strict", secure=console.settings.secure, path="/", **more)


def _next(asked):
    """The address to go to after the login: one of this console's."""
    return asked if re.fullmatch(r"/(?![/\\])[^\\\x00-\x20]*", asked) else "/"


def _ask(console, request, refusal=None, user=None, status=200, asked=None):
    """The form, with a token that a cookie has too: there is no session yet that could have one."""
    name = console.cookie + "_login"
    token = request.cookies.get(name) or secrets.token_urlsafe(24)
    response = console.show(
        "login.html",
        status,
        token=token,
        refusal=refusal,
        user=console.settings.user if user is None else user,
        asked=asked or request.query_params.get("next", ""),
    )
    _cookie(console, response, name, token, max_age=3600)
    return response


async def login(request):
    """The form, and what it sends."""
    console = request.app.state.console
    if request.method == "GET":
        if console.sessions.find(request.cookies.get(console.cookie, "")):
            return RedirectResponse(_next(request.query_params.get("next", "")), 303)
        return _ask(console, request)
    try:
        fields = await form(request)
    except TooLarge:
        return _ask(console, request, "The form is too large.", status=413)
    if not is_token(fields.get("csrf"), request.cookies.get(console.cookie + "_login")):
        return _ask(console, request, "The form was outdated. Please try again.", status=403)
    user = fields.get("user", "").strip()
    try:
        secret = await console.sessions.login(user, fields.get("password", ""))
    except Refused as refused:
        return _ask(console, request, refused.message, user, refused.status, fields.get("next"))
    response = RedirectResponse(_next(fields.get("next", "")), 303)
    _cookie(console, response, console.cookie, secret)
    response.delete_cookie(console.cookie + "_login")
    return response


async def logout(request):
    """Ends the session."""
    console = request.app.state.console
    secret = request.cookies.get(console.cookie, "")
    session = console.sessions.find(secret)
    fields = await form(request)
    if session and is_token(fields.get("csrf"), session.csrf):
        console.sessions.logout(secret)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(console.cookie)
    return response
