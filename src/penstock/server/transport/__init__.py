"""HTTP: the uvicorn protocol, dispatch, routing, request bodies, errors and the supervisor."""
