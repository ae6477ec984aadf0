"""What the catalogs of PostgreSQL say about our schemas, in a form that two databases can share."""

from __future__ import annotations

from typing import Any

import psycopg

SCHEMAS = ["penstock", "mdb_queue"]

# Each query returns rows of text: the name of an object, then a property of it.
_QUERIES = {
    "schemas": """
        select n.nspname, concat_ws(' ', n.nspowner::regrole, n.nspacl, obj_description(n.oid))
        from pg_namespace n where n.nspname = any (%(schemas)s)""",
    "relations": """
        select c.oid::regclass::text, concat_ws(' ', c.relkind, c.relpersistence,
          c.relowner::regrole, c.relacl, 'identity', c.relreplident, c.reloptions,
          'toast', t.reloptions, c.relispartition, pg_get_expr(c.relpartbound, c.oid),
          pg_get_partkeydef(c.oid),
          obj_description(c.oid, 'pg_class'))
        from pg_class c left join pg_class t on t.oid = c.reltoastrelid
        where c.relnamespace = any (%(schemas)s::regnamespace[])""",
    "columns": """
        select a.attrelid::regclass || '.' || a.attname, concat_ws(' ',
          row_number() over (partition by a.attrelid order by a.attnum),
          format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
          a.attstorage, a.attcollation::regcollation, a.attacl, a.attoptions,
          pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum))
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = any (%(schemas)s::regnamespace[]) and c.relkind in ('r', 'p', 'c')
          and a.attnum > 0 and not a.attisdropped""",
    "constraints": """
        select c.conrelid::regclass || ' ' || c.conname,
          concat_ws(' ', pg_get_constraintdef(c.oid), c.convalidated, obj_description(c.oid))
        from pg_constraint c where c.connamespace = any (%(schemas)s::regnamespace[])""",
    "indexes": """
        select i.indexrelid::regclass::text, concat_ws(' ', pg_get_indexdef(i.indexrelid),
          i.indisreplident, i.indisclustered, i.indisvalid, c.reloptions)
        from pg_index i join pg_class c on c.oid = i.indexrelid
        where c.relnamespace = any (%(schemas)s::regnamespace[])""",
    "sequences": """
        select s.seqrelid::regclass::text, concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqmin,
          s.seqmax, s.seqincrement, s.seqcycle, s.seqcache, pg_sequence_last_value(s.seqrelid),
          (select a.attrelid::regclass || '.' || a.attname from pg_depend d join pg_attribute a
             on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
           where d.objid = s.seqrelid and d.deptype in ('a', 'i')))
        from pg_sequence s join pg_class c on c.oid = s.seqrelid
        where c.relnamespace = any (%(schemas)s::regnamespace[])""",
    "triggers": """
        select t.tgrelid::regclass || ' ' || t.tgname,
          concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled, t.tgdeferrable, t.tginitdeferred)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = any (%(schemas)s::regnamespace[]) and not t.tgisinternal""",
    "types": """
        select t.oid::regtype::text, concat_ws(' ', t.typtype, t.typowner::regrole, t.typacl,
          obj_description(t.oid, 'pg_type'))
        from pg_type t where t.typnamespace = any (%(schemas)s::regnamespace[])
          and t.typelem = 0""",
}


def describe(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Every table, column, constraint, index, sequence, trigger and type of Penstock, by name.

    The order of columns counts, but not the gaps that dropped columns leave.
    """
    with connection.transaction(force_rollback=True):
        connection.execute("set local search_path = pg_catalog")
        return {
            f"{kind} {name}": properties
            for kind, query in _QUERIES.items()
            for name, properties in connection.execute(query.encode(), {"schemas": SCHEMAS})
        }


def differences(left: dict[str, str], right: dict[str, str]) -> list[str]:
    """One line for each object that differs, or that only one of them has."""
    return [
        f"{name}: {left.get(name, 'missing')} <> {right.get(name, 'missing')}"
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    ]
