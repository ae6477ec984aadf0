"""The settings of Spark's S3A connector, for the libraries that reach S3 without Spark.

delta-rs and PyIceberg write the logs of tables from the driver. They use the endpoint, the region
and the keys that Spark has. What Spark has not been told, they look up as usual: in AWS_*
variables, in profiles and in the metadata of the machine.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from penstock.lake.storage.filesystem import HadoopStorage, Storage

_S3: Final = ("s3", "s3a", "s3n")
_KEYS: Final = {
    "access_key": "access.key",
    "secret_key": "secret.key",
    "session_token": "session.token",
    "endpoint": "endpoint",
    "region": "endpoint.region",
}
_DELTA: Final = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "endpoint": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
}
_ICEBERG: Final = {
    "access_key": "s3.access-key-id",
    "secret_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "endpoint": "s3.endpoint",
    "region": "s3.region",
}


def delta_options(storage: Storage) -> dict[str, str]:
    """The storage options of delta-rs."""
    found = _s3_settings(storage)
    options = {_DELTA[name]: value for name, value in found.items() if name in _DELTA}
    if found.get("endpoint", "").startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    if found.get("path_style") == "false":
        options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = "true"
    return options


def iceberg_options(storage: Storage) -> dict[str, str]:
    """The properties of PyIceberg's file system."""
    found = _s3_settings(storage)
    options = {_ICEBERG[name]: value for name, value in found.items() if name in _ICEBERG}
    if found.get("path_style") == "false":
        options["s3.force-virtual-addressing"] = "true"
    return options


def _s3_settings(storage: Storage) -> dict[str, str]:
    """What Spark was told of S3. Settings of the bucket come before those of all buckets."""
    parts = urlsplit(storage.root)
    if parts.scheme not in _S3 or not isinstance(storage, HadoopStorage):
        return {}

    def setting(name: str) -> str:
        of_bucket = storage.setting(f"fs.s3a.bucket.{parts.netloc}.{name}")
        return of_bucket or storage.setting(f"fs.s3a.{name}")

    found = {key: value for key, name in _KEYS.items() if (value := setting(name))}
    endpoint = found.get("endpoint")
    if endpoint and "://" not in endpoint:
        secure = setting("connection.ssl.enabled") != "false"
        found["endpoint"] = f"{'https' if secure else 'http'}://{endpoint}"
    if endpoint and (style := setting("path.style.access")):
        found["path_style"] = style
    return found
