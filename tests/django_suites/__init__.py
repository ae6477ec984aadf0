"""The test suites of other backends of Django's Tasks, run with Penstock's backend.

They are fetched from the package index by `make test-django-suites`, and are not part of Penstock.
"""
