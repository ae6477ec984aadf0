"""The catalog that finds a lake's Iceberg tables by name: in PostgreSQL, or a REST server.

The one in PostgreSQL is Iceberg's JDBC catalog. PyIceberg writes the same tables, so this needs no
Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg.conninfo import conninfo_to_dict

from penstock.errors import ConfigurationError
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.formats import INSTALL_ICEBERG
from penstock.lake.storage.object_store import iceberg_options

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog

# Its name in PostgreSQL. A catalog in Spark must have the same name to find the tables.
CATALOG: Final = "penstock"
# The schema with the tables of the catalog: see sql/schema/lake.sql.
SCHEMA: Final = "penstock"


def open_catalog(storage: Storage, address: str | None, dsn: str | None) -> Catalog:
    """The REST catalog at an address, or the one in the database."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.catalog.sql import SqlCatalog
    except ModuleNotFoundError as error:
        raise ConfigurationError("PyIceberg is not installed", hint=INSTALL_ICEBERG) from error
    options = iceberg_options(storage)
    if address is not None:
        # Tokens and other options come from PYICEBERG_CATALOG__PENSTOCK__* or .pyiceberg.yaml.
        return load_catalog(CATALOG, type="rest", uri=address, **options)
    if dsn is None:
        raise ConfigurationError(
            f"the Iceberg tables at {storage.root} cannot be written without their catalog",
            hint="Name the database that has it: PENSTOCK_DSN or --dsn.",
        )
    return _without_pool(
        SqlCatalog(
            CATALOG,
            uri=sqlalchemy_url(dsn),
            warehouse=storage.root,
            init_catalog_tables="false",
            **options,
        )
    )


def _without_pool(catalog: SqlCatalog) -> SqlCatalog:
    """A step uses the catalog briefly. No connection stays open until the next step."""
    from sqlalchemy import NullPool, create_engine

    url = catalog.engine.url
    catalog.engine.dispose()
    catalog.engine = create_engine(url, poolclass=NullPool)
    return catalog


def sqlalchemy_url(dsn: str) -> str:
    """Any address of libpq, with the schema of the catalog as the search path."""
    from sqlalchemy import URL

    parameters = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    options = f"{parameters.pop('options', '')} -csearch_path={SCHEMA}".strip()
    database = parameters.pop("dbname", None)
    user, password = parameters.pop("user", None), parameters.pop("password", None)
    url = URL.create(
        "postgresql+psycopg", user, password, database=database, query=parameters
    ).update_query_dict({"options": options})
    return url.render_as_string(hide_password=False)
