-- Which segments may hold rows, and where they begin: layout/ring.sql draws the ring. Locks: none. Indexes: none.
-- _used_slots returns all segments except the free ones.
create or replace function penstock._used_slots() returns integer[] language sql as $$
  select array_agg(digit::integer)
  from regexp_split_to_table('0' || {ring.not_free({ring.text})}, '') digit
$$;

-- The segments that may hold rows, the current one first: a leased message is most likely there. One expression, which
-- PostgreSQL inlines: as a query it was an eighth of an ack through mdb_queue.
create or replace function penstock._slots_by_age() returns integer[] language sql as $$
  select string_to_array(reverse('0' || {ring.not_free({ring.text})}), null)::integer[]
$$;

-- Where the last so many blocks of a table begin. Segments become empty from the front: rows that are left are in the
-- last blocks, and not behind all dead rows.
create or replace function penstock._late_block(name text, blocks integer) returns tid language sql as $$
  select format('(%s,0)', greatest(0, pg_relation_size(('penstock.'
    || name)::regclass) / current_setting('block_size')::integer - blocks))::tid
$$;

-- The position with which the current segment began. A message of an older segment with a higher position was inserted
-- while the ring turned. The floor has to stay at or below this position for claims to look into that segment.
create or replace function penstock._current_from() returns bigint language sql volatile as $$
  select {ring.current_from}
$$;
