"""The pages' addresses, and what each has: a login, a connection as the visitor, a word when the server is away."""

import contextlib
import functools
import logging
import re
from pathlib import Path
from urllib.parse import quote

import jinja2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from howdah_console import __version__, drawings, figures, shield
from howdah_console.ask import FAULTS, LOST, Ask, Fault, fault_of
from howdah_console.sessions import Sessions
from howdah_console.settings import Settings
from howdah_console.shield import form, is_token

__all__ = ["Settings", "make_app"]

HERE = Path(__file__).parent


class Missing(Exception):
    """What the address names is not there, or not for this visitor."""


class Forbidden(Exception):
    """What the console does not allow, in words."""


class Page:
    """One request of a logged-in visitor: what a view asks by, and renders with."""

    def __init__(self, console, request, session, ask, fields):
        self.console = console
        self.settings = console.settings
        self.request = request
        self.session = session
        self.ask = ask
        self.form = fields
        self.is_part = request.headers.get("hx-request") == "true"

    def number(self, name):
        """A whole number in the address."""
        text = self.request.path_params[name]
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise Missing
        return int(text)

    def need_actions(self):
        """Raises unless the console may change something."""
        if not self.settings.actions:
            raise Forbidden("This console is read-only. Start it with --actions to allow changes.")

    def need_part(self):
        """Raises unless a page asked for this part of it: a header of its own that no link can send."""
        if not self.is_part:
            raise Missing

    def show(self, template, status=200, **values):
        """The page of a template."""
        return self.console.show(template, status, request=self.request, session=self.session, **values)

    def go(self, address):
        """A redirect; within a page that htmx keeps, one that htmx follows."""
        if self.is_part:
            return Response(status_code=204, headers={"HX-Redirect": address})
        return RedirectResponse(address, 303)


class Console:
    """What the views share."""

    def __init__(self, settings):
        self.settings = settings
        self.sessions = Sessions(settings)
        # Cookies do not tell ports apart.
        self.cookie = f"howdah_console_{settings.port}"
        self.templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        self.templates.filters.update(figures.FILTERS)
        # What the browser's field for dates can show.
        self.templates.tests["day"] = lambda text: re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None
        self.templates.globals.update(drawings.GLOBALS, settings=settings, version=__version__)

    def show(self, template, status=200, **values):
        """The page of a template."""
        values = {"session": None, "here": "", **values}
        return HTMLResponse(self.templates.get_template(template).render(values), status)

    def fault(self, request, session, fault, status):
        """A page, or a part of one, that says what went wrong."""
        is_part = request.headers.get("hx-request") == "true"
        # htmx drops the content of errors.
        return self.show(
            "fault_part.html" if is_part else "fault.html", 200 if is_part else status, session=session, fault=fault
        )


def page(view, connects=True, is_form=True):
    """The handler of a view: `await view(page)`, with a session, one of its connections if the view wants it and, for
    a POST, the right token and the fields, unless the body is a file.
    """

    @functools.wraps(view)
    async def handle(request):
        console = request.app.state.console
        by_itself = request.method == "GET" and request.headers.get("hx-request") == "true"
        session = console.sessions.find(request.cookies.get(console.cookie, ""), clicked=not by_itself)
        if session is None:
            if request.headers.get("hx-request") == "true":
                return Response(status_code=204, headers={"HX-Redirect": "/login"})
            asked = str(request.url.replace(scheme="", netloc="")) if request.method == "GET" else "/"
            return RedirectResponse("/login" if asked == "/" else f"/login?next={quote(asked)}", 303)
        fields = {}
        if request.method == "POST":
            try:
                fields = await form(request) if is_form else {}
            except shield.TooLarge:
                return console.fault(request, session, Fault("The form is larger than 1 MB."), 413)
            if not is_token(fields.pop("csrf", None) or request.headers.get("x-csrf-token"), session.csrf):
                return console.fault(request, session, Fault("This form is outdated: load the page again."), 403)
        allowed = console.settings.page_seconds
        try:
            if not connects:
                return await view(Page(console, request, session, None, fields))
            async with session.pool.acquire(timeout=5) as connection:
                ask = Ask(connection, allowed, session, lambda: console.sessions.is_there(session))
                shown = Page(console, request, session, ask, fields)
                try:
                    return await view(shown)
                except Missing:
                    # A replica may not know of it yet.
                    if request.method != "GET" or ask.of_primary:
                        raise
                    ask.of_primary = True
                    return await view(shown)
                except LOST:
                    # It may still be waiting for an answer.
                    connection.terminate()
                    raise
        except Missing:
            fault = Fault(
                "There is no such page, or you may not see it.",
                "The owner of a project grants the right to see it: pgml.grant(project, role, 'see')."
                if request.url.path.startswith(("/projects/", "/models/"))
                else "",
            )
            return console.fault(request, session, fault, 404)
        except Forbidden as error:
            return console.fault(request, session, Fault(str(error)), 403)
        except FAULTS as error:
            return console.fault(request, session, fault_of(error, allowed), 503)
        except Exception:
            logging.getLogger(__name__).exception("a page failed")
            fault = Fault("The console made a mistake; its log has more.", "Please report it.")
            return console.fault(request, session, fault, 500)

    return handle


def make_app(settings):
    """The console as an ASGI application."""
    from howdah_console.views import login, models, poolers, sql, train, tryout, upload, watch

    console = Console(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        yield
        await console.sessions.close()

    def get(path, view, connects=True):
        return Route(path, page(view, connects), methods=["GET"])

    def post(path, view, connects=True):
        return Route(path, page(view, connects), methods=["POST"])

    routes = [
        Route("/login", login.login, methods=["GET", "POST"]),
        Route("/logout", login.logout, methods=["POST"]),
        get("/", models.overview),
        get("/projects/{project}", models.project),
        get("/projects/{project}/compare", models.compare),
        post("/projects/{project}/deploy", models.deploy),
        post("/projects/{project}/rollback", models.rollback),
        get("/models/{model}", models.model),
        get("/models/{model}/curves", models.curves),
        get("/models/{model}/card", models.card),
        post("/models/{model}/describe", models.describe),
        post("/models/{model}/trial", models.trial),
        post("/models/{model}/delete", models.delete),
        get("/models/{model}/try", tryout.show),
        post("/models/{model}/try", tryout.run),
        get("/train", train.tables),
        get("/train/table", train.table),
        post("/train/table", train.read),
        get("/train/hyperparameters", train.hyperparameters),
        get("/train/upload", upload.show),
        post("/train/upload/look", upload.look),
        Route("/train/upload", page(upload.make, connects=False, is_form=False), methods=["POST"]),
        post("/train", train.start),
        get("/jobs", train.jobs),
        get("/jobs/{job}", train.job),
        post("/jobs/{job}/cancel", train.cancel),
        get("/watch", watch.show),
        get("/watch/usage", watch.show),
        get("/watch/{project}", watch.project),
        post("/watch/{project}", watch.start),
        post("/watch/{project}/check", watch.check),
        post("/watch/{project}/stop", watch.stop),
        # Poolers are asked while the database is away, too.
        get("/poolers", poolers.show, connects=False),
        get("/poolers/{pooler}", poolers.pooler, connects=False),
        post("/poolers/{pooler}", poolers.command, connects=False),
        get("/poolers/{pooler}/clients", poolers.clients, connects=False),
        post("/poolers/{pooler}/clients", poolers.kill, connects=False),
        get("/poolers/{pooler}/shapes", poolers.shapes, connects=False),
        get("/poolers/{pooler}/events", poolers.events, connects=False),
        get("/sql", sql.show),
        # Statements that take long have connections of their own: pages, and cancelling, need those of the session.
        Route("/sql/run", page(sql.run, connects=False), methods=["POST"]),
        post("/sql/cancel", sql.cancel),
        Route("/sql/csv", page(sql.csv, connects=False), methods=["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(shield.Shield, settings=settings)], lifespan=lifespan)
    app.state.console = console

    async def missing(request, _):
        session = console.sessions.find(request.cookies.get(console.cookie, ""))
        return console.fault(request, session, Fault("There is no such page."), 404)

    async def no_page(request, _):
        session = console.sessions.find(request.cookies.get(console.cookie, ""))
        return console.fault(request, session, Fault("This address is of an action, not of a page."), 405)

    app.add_exception_handler(404, missing)
    app.add_exception_handler(405, no_page)
    return app
