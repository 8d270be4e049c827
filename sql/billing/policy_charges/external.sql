-- Adds to line the amounts that a policy charges on top of device costs, divided among teams by what they held on the whole
-- day, evenly, or by fixed parts. Amounts without a payer stay with the platform under their name.
insert into line by name
with cost as (
    select c.* replace (c.amount::hugeint as amount)
    from policy_shared c
    where exists (select 1 from cell d where d.part = 0 and d.day_us = c.day_us)
),
holder as (
    select day_us, owner, sum(held_us) as held_us
    from held_team
    group by all
),
weighed as (
    select c.day_us, c.name, h.owner, case when c.split = 'even' then 1 else h.held_us end as weight
    from (select distinct day_us, name, split, named from cost where split <> 'fixed') c
    join holder h using (day_us)
    where not c.named and (c.split = 'proportional' or not starts_with(h.owner, '__'))
    union all
    select c.day_us, c.name, m.team, case when c.split = 'proportional' then h.held_us else m.weight end
    from (select distinct day_us, name, split, policy from cost) c
    join policy_member m on m.policy = c.policy and m.name = c.name
    left join holder h on h.day_us = c.day_us and h.owner = m.team
    where c.split <> 'proportional' or h.held_us > 0
),
payer as (
    select
        *,
        sum(weight) over (
            partition by day_us, name order by owner rows between unbounded preceding and current row
        ) as upto,
        sum(weight) over (partition by day_us, name) as total
    from weighed
),
dealt as (
    select
        c.part,
        c.day_us,
        c.name,
        c.currency,
        y.owner,
        c.amount // y.total * y.weight
            + (c.amount % y.total * y.upto) // y.total
            - (c.amount % y.total * (y.upto - y.weight)) // y.total as amount
    from cost c
    join payer y using (day_us, name)
)
select part, day_us, 'shared' as kind, name as cause, true as external, owner, currency, false as lacks, 0 as units, amount
from dealt
union all
select part, day_us, 'shared', name, true, '__platform__', currency, false, 0, amount
from cost c
where not exists (select 1 from payer y where y.day_us = c.day_us and y.name = c.name);
