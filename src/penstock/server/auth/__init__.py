"""Authentication, API keys, signed tokens, and the permissions that every route needs."""
