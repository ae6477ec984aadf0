"""The settings of Spark's S3A connector, for the libraries that reach S3 without Spark.

delta-rs and PyIceberg write the logs of tables from the driver. They use the endpoint, the region
and the keys that Spark has. They look up the other settings as usual: in AWS_*
variables, in profiles and in the metadata of the machine.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from penstock.lake.storage.filesystem import HadoopStorage, Storage

_S3: Final = ("s3", "s3a", "s3n")


class _Setting(NamedTuple):
    """The names of one setting."""

    spark: str
    delta: str
    iceberg: str


_SETTINGS: Final = (
    _Setting("access.key", "AWS_ACCESS_KEY_ID", "s3.access-key-id"),
    _Setting("secret.key", "AWS_SECRET_ACCESS_KEY", "s3.secret-access-key"),
    _Setting("session.token", "AWS_SESSION_TOKEN", "s3.session-token"),
    _Setting("endpoint", "AWS_ENDPOINT_URL", "s3.endpoint"),
    _Setting("endpoint.region", "AWS_REGION", "s3.region"),
)
_PATH_STYLE: Final = "path.style.access"


def delta_options(storage: Storage) -> dict[str, str]:
    """The storage options of delta-rs."""
    found = _s3_settings(storage)
    options = {each.delta: found[each.spark] for each in _SETTINGS if each.spark in found}
    if found.get("endpoint", "").startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    if found.get(_PATH_STYLE) == "false":
        options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = "true"
    return options


def iceberg_options(storage: Storage) -> dict[str, str]:
    """The properties of PyIceberg's file system."""
    found = _s3_settings(storage)
    options = {each.iceberg: found[each.spark] for each in _SETTINGS if each.spark in found}
    if found.get(_PATH_STYLE) == "false":
        options["s3.force-virtual-addressing"] = "true"
    return options


def _s3_settings(storage: Storage) -> dict[str, str]:
    """Spark's settings of S3 by name. Settings of the bucket come before those of all buckets."""
    parts = urlsplit(storage.root)
    if parts.scheme not in _S3 or not isinstance(storage, HadoopStorage):
        return {}

    def setting(name: str) -> str:
        of_bucket = storage.setting(f"fs.s3a.bucket.{parts.netloc}.{name}")
        return of_bucket or storage.setting(f"fs.s3a.{name}")

    found = {each.spark: value for each in _SETTINGS if (value := setting(each.spark))}
    endpoint = found.get("endpoint")
    if endpoint and "://" not in endpoint:
        secure = setting("connection.ssl.enabled") != "false"
        found["endpoint"] = f"{'https' if secure else 'http'}://{endpoint}"
    if endpoint and (style := setting(_PATH_STYLE)):
        found[_PATH_STYLE] = style
    return found
