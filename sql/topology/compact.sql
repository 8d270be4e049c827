-- Removes link statements that repeat both the one before and the one after them. A statement is all rows of one
-- instant of a node, of a HyperNode or Topology, or of a topology of Slurm's configuration. What a file states stays complete
-- without the statements of others, because each import can be taken back.
delete from link
where rowid in (
    with link_row as (
        select
            rowid as number,
            cluster,
            case
                when level in ('SWITCH', 'BLOCK') then chr(30) || (detail ->> 'plugin') || chr(31) || coalesce(detail ->> 'topology', '')
                when level in ('LEVEL', 'HYPERNODE') then level || chr(30) || a
                else node
            end as scope,
            observed_us,
            file_id,
            coalesce(node, '') || chr(31) || a || chr(31) || coalesce(b, '') || chr(31) || level || chr(31) || coalesce(detail, '') as content
        from link
        where observed_us is not null and (json_valid(detail) or detail is null)
    ),
    statement as (
        select cluster, scope, observed_us, file_id, md5(string_agg(distinct content, chr(30) order by content)) as digest
        from link_row
        where scope is not null
        group by cluster, scope, observed_us, file_id
    ),
    repeated as (
        select cluster, scope, observed_us, file_id
        from statement
        window
            history as (partition by cluster, scope order by observed_us, file_id),
            own as (partition by file_id, cluster, scope order by observed_us)
        qualify digest = lag(digest) over history and digest = lead(digest) over history
            and digest = lag(digest) over own and digest = lead(digest) over own
    )
    select t.number
    from link_row t
    join repeated r on r.cluster = t.cluster and r.scope = t.scope and r.observed_us = t.observed_us
        and r.file_id is not distinct from t.file_id
);
