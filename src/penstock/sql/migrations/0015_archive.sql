-- The foreign key had every archived message lock the row of its queue. With 64 connections that archive messages of one queue this
-- cost a tenth of their pace. drop_queue deletes the archive of a queue.
alter table penstock.pgmq_archive drop constraint if exists pgmq_archive_queue_id_fkey;
