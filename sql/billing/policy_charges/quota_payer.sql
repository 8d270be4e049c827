-- Adds to payer_weight the teams that pay for what they leave free of their quotas.
insert into payer_weight by name
with
-- A quota is for the part of the day that the ledger of its cluster covers: today is not over yet.
known_day as (
    select
        y.day_us,
        c.cluster,
        max(least(c.end_us, y.day_us + 86400000000)) - min(greatest(c.start_us, y.day_us)) as known_us
    from (select distinct day_us from policy_day join policy_quota using (policy)) y
    join capacity c on c.start_us < y.day_us + 86400000000 and c.end_us > y.day_us
    group by all
),
quota_day as (
    select
        q.policy,
        q.quota,
        q.team,
        f.day_us,
        max(q.quota_us::hugeint * k.known_us // 86400000000) as quota_us,
        sum(f.free_us) as free_us
    from policy_quota q
    join known_day k on k.cluster = q.cluster
    join free_place f
        on f.policy = q.policy and f.cluster = q.cluster and f.day_us = k.day_us
        and f.pool is not distinct from q.pool
        and f.gpu_model is not distinct from q.gpu_model
    group by q.policy, q.quota, q.team, f.day_us
),
quota_held as (
    select q.policy, q.quota, h.day_us, sum(h.held_us) as held_us
    from policy_quota q
    join held_team h
        on h.policy = q.policy and h.owner = q.team and h.cluster = q.cluster
        and h.pool is not distinct from q.pool
        and h.gpu_model is not distinct from q.gpu_model
    group by q.policy, q.quota, h.day_us
),
-- Each quota pays at most what it leaves free, in billionths of every free GPU in its scope.
quota_part as (
    select
        d.policy,
        d.quota,
        d.team,
        d.day_us,
        least(greatest(d.quota_us - coalesce(h.held_us, 0), 0), d.free_us) * 1000000000 // d.free_us as part
    from quota_day d
    left join quota_held h using (policy, quota, day_us)
    where d.free_us > 0
)
select p.day_us, y.cause, p.place, d.team as owner, sum(d.part)::hugeint as weight, 1000000000 as least_total
from free_place p
join policy_payer y using (policy)
join policy_quota q
    on q.policy = p.policy and q.cluster = p.cluster
    and q.pool is not distinct from p.pool
    and q.gpu_model is not distinct from p.gpu_model
join quota_part d on d.policy = q.policy and d.quota = q.quota and d.day_us = p.day_us
where y.payer = 'quota_holder' and d.part > 0
group by all;
