"""The HTTP server: the data plane under `/api`, the control plane under `/managed-services`, and
the admin pages.

**Routes.** The packages `api` and `control` declare endpoints (`transport.routing.Endpoints`):
method, path, body, answer. The router and OpenAPI are built from the same declaration, and
`app.endpoints()` lists them. Pages are plain Starlette routes from `ui.routes()`. They are tried
after the API.

**Auth.** `auth.permissions` declares what each route, page and verb needs. It is checked before the
handler runs. A handler that finds out about a queue later, from a body or a message, checks it with
`call.require(scope, queue)`. A page is declared with `ui.visits.Pages` and gets a `Visit`, which
knows the principal: `principal.may(scope, queue)`, `.require(...)`, `.only(scope, queues)`. The
session of a page is a signed cookie, issued at `/login` for a key. A POST must come from our own
origin, with the session's token.

**Database.** `call.context.database` runs commands: `await database.run(read.queues())`,
`await database.run(write.pause(name))`. `async with database.transaction() as connection` runs
several in one transaction. Pages use `visit.run`, and `visit.look` for the snapshots that they
share. While the database is unavailable, commands raise DatabaseUnavailableError at once, which
becomes a 503. The commands are in `penstock.commands`, and their queries in `sql/queries/read`.

**Actions.** `call.act(command, "pause", queue)` runs what an operator does and records it in the
same transaction. On pages it is a `ui.actions.Act`, which asks for confirmation first.

**Settings.** `context.settings` is a `ServerSettings`. All of them are read at the start.

**Errors.** Raise PenstockErrors or `transport.problems.HttpError`: they become problem+json.

**Layers.** `pyproject.toml` has the layers of this package, from `app` to `database`.

Nothing here is imported by `penstock` itself: the web framework comes with `penstock[server]`.
"""
