-- A row is a cluster and a day with sealed samples, all of which are still there: no day past retention.
select
    c.cluster,
    s.observed_us // 86400000000 * 86400000000 as day_us,
    count(*) as rows
from sample s
join context c using (context_id)
where s.observed_us // 86400000000 * 86400000000 in (select day_us from sealed_day)
group by all
order by all;
