-- A row is a ledger day of a cluster whose raw samples still exist, its hours, and the digest of the requests that its free
-- time was evaluated with (NULL: it was not evaluated).
select h.day_us, a.digest, h.hours
from (
    select hour_us // 86400000000 * 86400000000 as day_us, list(hour_us order by hour_us) as hours
    from (select distinct hour_us from ledger_hour where cluster = $cluster)
    group by hour_us // 86400000000
) h
left join asked_day a on a.cluster = $cluster and a.day_us = h.day_us
where h.day_us not in (
    select s.day_us
    from (
        select distinct context_id, hour_us // 86400000000 * 86400000000 as day_us
        from context_span
        where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
    ) s
    join context c using (context_id)
    where c.cluster = $cluster
)
order by h.day_us;
