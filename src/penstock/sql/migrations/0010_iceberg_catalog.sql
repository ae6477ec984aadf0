-- The catalog of lakes in the Iceberg format.
-- Clients from version 1 on work with it.
create table penstock.iceberg_tables (
  catalog_name               varchar(255) not null,
  table_namespace            varchar(255) not null,
  table_name                 varchar(255) not null,
  metadata_location          varchar(1000),
  previous_metadata_location varchar(1000),
  iceberg_type               varchar(5),
  primary key (catalog_name, table_namespace, table_name)
);

create table penstock.iceberg_namespace_properties (
  catalog_name   varchar(255) not null,
  namespace      varchar(255) not null,
  property_key   varchar(255) not null,
  property_value varchar(1000),
  primary key (catalog_name, namespace, property_key)
);
