-- A row is what of the day has no price: GPU microseconds in parts of 1 / $scale, the words by which a rate is missing, and
-- since when.
select p.cluster, p.pool, p.model as gpu_model, p.profile as mig_profile, min(p.from_us) as first_us, sum(f.units)::varchar as units
from focus_part f
join focus_price p using (price_id)
left join run_team t on t.run_id = f.run_id
where p.price is null
    and (
        $teams::varchar[] is null
        or list_contains($teams::varchar[], case when f.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end)
    )
group by all
order by all;
