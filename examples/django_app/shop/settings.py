"""Settings of a small project. DATABASE_URL names the PostgreSQL, else it is on this machine."""

import os
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SECRET_KEY", "for development only")
DEBUG = os.environ.get("DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "shop.urls"
ASGI_APPLICATION = "shop.asgi.application"
USE_TZ = True
STATIC_URL = "static/"
LOGIN_URL = "admin:login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "penstock.django",
    "orders",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

_url = conninfo_to_dict(os.environ.get("DATABASE_URL", "dbname=shop"))
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url["dbname"],
        "USER": _url.get("user", ""),
        "PASSWORD": _url.get("password", ""),
        "HOST": _url.get("host", ""),
        "PORT": str(_url.get("port", "")),
        # Connections are kept between requests and between tasks.
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
}

# `migrate` creates the queues of all tasks. Here they get settings.
PENSTOCK = {"QUEUES": {"orders": {"lease_seconds": 60, "max_attempts": 10}}}

# Django's own Tasks, on the same queues. Before Django 6.0 they need the package django-tasks.
TASKS = {"default": {"BACKEND": "penstock.django.backend.PenstockBackend"}}
