-- Keeps ledger hours whose raw samples are deleted or lost: if recomputed, they would become unobserved. $elsewhere: days whose
-- samples are read from elsewhere.
delete from dirty_hour
where cluster = $cluster
    and hour_us in (select hour_us from ledger_hour where cluster = $cluster)
    and (
        hour_us in (select hour_us from lost_hour where cluster = $cluster)
        or hour_us // 86400000000 in (
            select s.day
            from (
                select distinct context_id, hour_us // 86400000000 as day
                from context_span
                where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
            ) s
            join context c using (context_id)
            where c.cluster = $cluster and not list_contains($elsewhere::bigint[], s.day)
        )
    );
