-- What migration 0013 left empty. The views that were made of it are made of the lanes by now; to drop it before would have
-- taken them along, with whatever others made of them and may do with them.
do $$
begin
  for slot in 0..8 loop
    if to_regclass('penstock.waited_' || slot) is not null then
      execute format('drop table penstock.waited_%s', slot);
    end if;
  end loop;
end $$;
