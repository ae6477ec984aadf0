"""Actions of operators.

A page asks for confirmation first and shows the consequences and the count. The POST of its form
runs the action and records it, in one transaction.

    class Pause(Act):
        path = "/queues/{name}/pause"

        async def ask(self, visit: Visit) -> Question: ...
        async def do(self, visit: Visit) -> Deed: ...

Then the visitor is redirected to a page that shows the recorded action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.commands.command import Command
from penstock.errors import AuthenticationError, PenstockError
from penstock.server.auth.permissions import need_of
from penstock.server.transport.problems import HttpError, Problem, describe
from penstock.server.ui.sessions import context_of, csrf_token, require_csrf, session_of
from penstock.server.ui.visits import View, Visit, failure, page_routes, respond

FORM_BYTES: Final = 2 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One input of a form. `kind`: text, number, select, checkbox, textarea, password or hidden."""

    name: str
    label: str = ""
    kind: str = "text"
    value: str = ""
    hint: str = ""
    options: Sequence[tuple[str, str]] = ()
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question before an action: its consequences, its target, the count and the limits."""

    title: str
    button: str
    back: str
    text: Sequence[str] = ()
    count: int | None = None
    unit: str = "messages"
    estimated: bool = False  # the count
    facts: Mapping[str, str] = field(default_factory=dict)
    fields: Sequence[Field] = ()
    danger: bool = False
    notice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """The command of an action, its record, and the page that follows.

    The result of the command is recorded as `answer_is`, if that is given. `after` is called after
    the commit. `shows` is a page that is sent instead of a redirect, for content that must not be
    in an address.
    """

    command: Command[Any]
    act: str
    target: str | None
    to: str
    details: Mapping[str, Any] = field(default_factory=dict)
    answer_is: str | None = None
    after: Callable[[], None] | None = None
    shows: View | None = None


class Act(ABC):
    """One option of a choice."""

    path: ClassVar[str]

    @abstractmethod
    async def ask(self, visit: Visit) -> Question:
        """Refuses visitors that may not run the action."""

    @abstractmethod
    async def do(self, visit: Visit) -> Deed: ...

    def routes(self) -> list[BaseRoute]:
        self._need = need_of("POST", self.path)
        return [
            *page_routes(self._show, self.path),
            Route(self.path, self._post, methods=["POST"]),
        ]

    async def _show(self, visit: Visit) -> View:
        return view_of(await self.ask(visit), visit.request.url.path)

    async def _post(self, request: Request) -> Response:
        request.scope["exchange"].route = self.path
        visit: Visit | None = None
        try:
            visit = await _visit(request)
            self._need.admit(visit.principal, visit.path)
            return await self._answer(visit)
        except Exception as error:
            return failure(request, visit, error, as_json=False)

    async def _answer(self, visit: Visit) -> Response:
        try:
            return await carry_out(visit, await self.do(visit))
        except (PenstockError, HttpError) as error:
            problem, _ = describe(error)
            if problem.status not in (400, 404, 409, 422, 429):
                raise
            # The form is shown again, with the input and the error.
            question = await self.ask(visit)
            name_as_labelled(problem, question.fields)
            view = view_of(question, visit.request.url.path, error=problem)
            return await respond(visit, View(**{**_fields(view), "status": problem.status}))


def name_as_labelled(problem: Problem, fields: Sequence[Field]) -> None:
    """Replace the name of a setting by its label, and say the allowed values once."""
    if problem.field is None:
        return
    # Settings in a JSON object are fields with a prefix: backoff.jitter, backoff_jitter.
    name = problem.field.replace(".", "_")
    label = next((field.label for field in fields if field.name == name), "")
    if not label:
        return
    quoted = f"\u201c{label}\u201d"
    if problem.allowed is None:
        problem.detail = problem.detail.replace(problem.field, quoted, 1)
        problem.hint = problem.hint and problem.hint.replace(problem.field, quoted, 1)
        return
    # A caller of SQL or HTTP gives null where the form has an empty input.
    allowed = problem.allowed.removesuffix(".").replace("or null for", "or empty for")
    detail = problem.detail.removesuffix(f"; allowed: {problem.allowed}")
    if detail in {f"{problem.field} is {value}" for value in ("null", "''", "[]")}:
        detail = f"{problem.field} is empty"
    problem.detail = detail.replace(problem.field, quoted, 1)
    problem.hint = f"Allowed: {allowed}."


def _fields(view: View) -> dict[str, Any]:
    return {name: getattr(view, name) for name in ("template", "title", "data")}


def view_of(question: Question, path: str, error: Any = None) -> View:
    return View(
        "confirm.html", question.title, {"question": question, "action": path, "error": error}
    )


async def carry_out(visit: Visit, deed: Deed) -> Response:
    """Run the action and record it, in one transaction."""
    context = visit.context
    async with context.database.transaction() as connection:
        answer = await context.database.run(deed.command, connection)
        details = dict(deed.details)
        if deed.answer_is is not None:
            details[deed.answer_is] = answer
        note = context.activity(visit.principal, visit.exchange, deed.act, deed.target, **details)
        number = await context.database.run(note, connection)
    context.snapshots.forget()
    if deed.after is not None:
        deed.after()
    if deed.shows is not None:
        return await respond(visit, deed.shows)
    mark = "&" if "?" in deed.to else "?"
    return RedirectResponse(f"{deed.to}{mark}done={number}", 303)


async def _visit(request: Request) -> Visit:
    """The visit of a POST, with a session and the token of our form."""
    principal = await session_of(request)
    if principal is None:
        raise AuthenticationError("there is no session", hint="Sign in at /login.")
    request.scope["exchange"].actor = principal.name
    visit = Visit(request, principal, await csrf_token(request))
    visit.form = await read_form(request)
    await require_csrf(request, visit.asked("csrf") or "")
    return visit


async def read_form(request: Request, most: int = FORM_BYTES) -> dict[str, list[str]]:
    async with context_of(request).bodies.read(request.scope, request.receive) as raw:
        if len(raw) > most:
            raise HttpError(413, "BodyTooLarge", "the form is too large")
        try:
            text = raw.decode("utf-8")
            return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=2000)
        except ValueError:
            raise HttpError(400, "MalformedForm", "the form cannot be read") from None
