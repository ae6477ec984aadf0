"""The HTTP server: the data plane under `/api`, the control plane under `/managed-services`, and
the pages for people.

Where things are, for who adds to it:

**Routes.** The two planes declare endpoints (`routing.Endpoints`): method, path, scope, body,
answer; the router and OpenAPI are made from the same declaration. `app.endpoints()` lists them.
Pages are plain Starlette routes: `ui.routes()` returns them, and they are tried after the API.

**Auth.** An endpoint names the scope it needs (`read`, `enqueue`, `consume`, `operate`, `admin`),
or None for what is open to anybody; `call.require(scope, queue)` then asks for one queue. A page is
decorated with `ui.sessions.page(scope)` and gets the `Principal` beside the request:
`principal.may(scope, queue)`, `.require(...)`, `.only(scope, queues)`. Its session is a signed
cookie, got at `/login` for a key; a POST must come from our own origin.

**Database.** `call.context.database` (pages: `sessions.context_of(request).database`) runs
commands: `await database.run(insights.queues())`, `await database.run(operations.pause(name))`;
`async with database.transaction() as connection` holds several together. While the database is
away it raises DatabaseUnavailableError at once, which becomes a 503. Reads belong in `insights`
and sql/insights, verbs in `operations`.

**Acts.** What an operator does is run by `call.act(command, "pause", queue)`, which notes it in the
same transaction; pages use `context.activity(principal, exchange, act, target)` for the note.

**Settings.** `context.settings` is a `ServerSettings`; all of them are read at the start.

**Errors.** Raise PenstockErrors or `problems.HttpError`: they become problem+json.

Nothing here is imported by `penstock` itself: the web framework comes with `penstock[server]`.
"""
