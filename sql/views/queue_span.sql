-- A row of cohort_root is a cohort below others, and the one at the top.
create or replace temp table cohort_root as
with recursive cohort as (
    select name, parent
    from queue
    where cluster = $cluster and scheduler = 'kueue' and kind = 'cohort' and parent is not null
    qualify row_number() over (partition by name order by observed_us desc nulls last, rowid desc) = 1
),
above as (
    select name, parent as root, 1 as depth from cohort
    union all
    select a.name, c.parent, a.depth + 1
    from above a
    join cohort c on c.name = a.root
    where a.depth < 32
)
select name, arg_max(root, depth) as root from above group by name;

-- A row of cohort_quota is a kind of device of which a cohort has quota of its own, by its last record. All of it is for the queues
-- in the cohort: a lendingLimit only bounds what goes to its parent.
create or replace temp table cohort_quota as
with last as (
    select name, flavor, quota, state
    from queue
    where cluster = $cluster and scheduler = 'kueue' and kind = 'cohort' and flavor is not null and quota is not null
        and observed_us < $until_us
    qualify row_number() over (partition by name, flavor order by observed_us desc, rowid desc) = 1
),
kind_of as (
    select *, unnest(map_keys(from_json(quota, '"MAP(VARCHAR,BIGINT)"'))) as profile
    from last
    where state is distinct from 'deleted'
)
select
    coalesce(o.root, k.name) as root,
    k.flavor,
    k.profile,
    sum(from_json(k.quota, '"MAP(VARCHAR,BIGINT)"')[k.profile])::bigint as lent
from kind_of k
left join cohort_root o on o.name = k.name
group by all;

-- A row of queue_span is a queue, a flavor of it where it has some, a kind of device (profile, '' whole GPUs) and a span in
-- which its numbers were valid. A record is valid until the next one, at most $fresh_us; the first one after a silence is
-- assumed to have been valid for $unseen_us before. `used` has what is reserved, too.
create or replace temp table queue_span as
with record as (
    select
        scheduler,
        kind,
        name,
        coalesce(flavor, '') as flavor,
        parent,
        state,
        observed_us,
        quota,
        used,
        borrowed,
        lend_max,
        -- Kueue's admission checks run on quota that is reserved already.
        detail ->> '$.reserved' as reserved,
        rowid as number
    from queue
    where cluster = $cluster and kind in ('cluster_queue', 'queue') and scheduler in ('kueue', 'volcano', 'yunikorn')
        -- Kueue reports each flavor, and their sum.
        and (scheduler <> 'kueue' or flavor is not null)
        and observed_us >= $from_us - $fresh_us and observed_us < $until_us
),
-- The rules of a ClusterQueue stand in its row of all flavors.
rule as (
    select scheduler, name, preemption
    from queue
    where cluster = $cluster and kind in ('cluster_queue', 'queue') and flavor is null and observed_us < $until_us
    qualify row_number() over (partition by scheduler, name order by observed_us desc, rowid desc) = 1
),
turn as (
    select
        *,
        lag(observed_us) over words as before_us,
        lead(observed_us) over words as next_us
    from (
        select *
        from record
        qualify row_number() over (partition by scheduler, name, flavor, observed_us order by number desc) = 1
    )
    window words as (partition by scheduler, name, flavor order by observed_us)
),
kind_of as (
    select
        *,
        unnest(map_keys(from_json(quota, '"MAP(VARCHAR,BIGINT)"'))) as profile
    from turn
    where quota is not null and used is not null and state is distinct from 'deleted'
)
select
    k.scheduler,
    k.name as queue,
    k.flavor,
    k.profile,
    case when k.scheduler = 'kueue' then coalesce(o.root, k.parent, 'queue ' || k.name) else k.scheduler end as root,
    coalesce(k.state, '') as state,
    r.preemption,
    from_json(k.quota, '"MAP(VARCHAR,BIGINT)"')[k.profile] as quota,
    greatest(
        coalesce(from_json(k.used, '"MAP(VARCHAR,BIGINT)"')[k.profile], 0),
        coalesce(from_json(k.reserved, '"MAP(VARCHAR,BIGINT)"')[k.profile], 0)
    ) as used,
    -- What the queue has for itself alone: nobody else may borrow it.
    greatest(
        from_json(k.quota, '"MAP(VARCHAR,BIGINT)"')[k.profile] - from_json(k.lend_max, '"MAP(VARCHAR,BIGINT)"')[k.profile], 0
    ) as kept,
    coalesce(from_json(k.borrowed, '"MAP(VARCHAR,BIGINT)"')[k.profile], 0) as borrowed,
    case
        when k.before_us is null or k.observed_us - k.before_us > $fresh_us then k.observed_us - $unseen_us
        else k.observed_us
    end as start_us,
    least(
        coalesce(k.next_us, 9223372036854775807), k.observed_us + $fresh_us, p.last_us
    ) as end_us
from kind_of k
join last_report p on p.slurm = (k.scheduler = 'slurm')
left join rule r on r.scheduler = k.scheduler and r.name = k.name
left join cohort_root o on o.name = k.parent;
