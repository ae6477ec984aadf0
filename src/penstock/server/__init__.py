"""The HTTP server: the data plane under `/api`, the control plane under `/managed-services`, and
the pages for people.

Where things are:

**Routes.** The two planes declare endpoints (`routing.Endpoints`): method, path, body, answer; the
router and OpenAPI are made from the same declaration. `app.endpoints()` lists them.
Pages are plain Starlette routes: `ui.routes()` returns them, and they are tried after the API.

**Auth.** What each route, page and verb needs is declared in `permissions`, and checked before its
handler runs. A handler that learns of a queue later, from a body or a message, asks for it:
`call.require(scope, queue)`. A page is declared with `ui.visits.Pages` and gets a `Visit`, which
knows the principal: `principal.may(scope, queue)`, `.require(...)`, `.only(scope, queues)`. Its
session is a signed cookie, got at `/login` for a key; a POST must come from our own origin, with
the session's token.

**Database.** `call.context.database` (pages: `visit.run`, and `visit.look` for the board that all
of them share) runs commands: `await database.run(insights.queues())`,
`await database.run(operations.pause(name))`; `async with database.transaction() as connection`
holds several together. While the database is away it raises DatabaseUnavailableError at once, which
becomes a 503. Reads belong in `insights`, `browsing` and `analytics`
and sql/insights, verbs in `operations`.

**Acts.** What an operator does is run by `call.act(command, "pause", queue)`, which notes it in the
same transaction; on pages it is an `ui.acts.Act`, which is asked about first.

**Settings.** `context.settings` is a `ServerSettings`; all of them are read at the start.

**Errors.** Raise PenstockErrors or `problems.HttpError`: they become problem+json.

Nothing here is imported by `penstock` itself: the web framework comes with `penstock[server]`.
"""
