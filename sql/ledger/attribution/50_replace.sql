-- Replaces devices, runs, capacity and segments with the new ones and marks the hours in which they differ. Of segments and
-- runs, only those that changed are written: most are of long ago.
create or replace temp table stored_segment as
select s.rowid as number, s.*
from segment s
join recomputed r on r.device_id = s.device_id and s.start_us >= r.from_us
where s.cluster = $cluster;

create or replace temp table gone_segment as
select s.*
from stored_segment s
where not exists (
        select 1
        from new_segment n
        where n.device_id = s.device_id and n.start_us = s.start_us and n.end_us = s.end_us
            and n.run_id is not distinct from s.run_id
            and n.share_num = s.share_num and n.share_den = s.share_den
            and n.profile is not distinct from s.profile and n.free_bucket is not distinct from s.free_bucket
            and n.estimated = s.estimated and n.conflict = s.conflict
            and n.method is not distinct from s.method and n.split is not distinct from s.split
    );

create or replace temp table come_segment as
select n.*
from new_segment n
where not exists (
        select 1
        from stored_segment s
        where s.device_id = n.device_id and s.start_us = n.start_us and s.end_us = n.end_us
            and s.run_id is not distinct from n.run_id
            and s.share_num = n.share_num and s.share_den = n.share_den
            and s.profile is not distinct from n.profile and s.free_bucket is not distinct from n.free_bucket
            and s.estimated = n.estimated and s.conflict = n.conflict
            and s.method is not distinct from n.method and s.split is not distinct from n.split
    );

-- Equal shares computed by another method do not count as a difference.
create or replace temp table changed as
with gone as (
    select * exclude (number, method, split) from gone_segment
    except
    select * exclude (method, split) from come_segment
),
come as (
    select * exclude (method, split) from come_segment
    except
    select * exclude (number, method, split) from gone_segment
),
moved as (
    select g.*, c.end_us as other_end_us
    from gone g
    join come c
        on c.device_id = g.device_id and c.start_us = g.start_us and c.run_id is not distinct from g.run_id
        and c.share_num = g.share_num and c.share_den = g.share_den
        and c.profile is not distinct from g.profile and c.free_bucket is not distinct from g.free_bucket
        and c.estimated = g.estimated and c.conflict = g.conflict
)
select least(end_us, other_end_us) as start_us, greatest(end_us, other_end_us) as end_us from moved
union all
select start_us, end_us from (select * from gone except select * exclude (other_end_us) from moved)
union all
select start_us, end_us
from (select * from come except select * exclude (other_end_us) replace (other_end_us as end_us) from moved);

-- The first and the last sample of a device reach outward: where another sample becomes the first, the hour of the old first
-- one changes too, and likewise for the last. New samples leave the first one as it is, and so its hour, which may be long ago.
insert into changed
select o.first_us as start_us, o.first_us + 1 as end_us
from device o
join new_device n using (device_id)
where o.cluster = $cluster and (o.first_us <> n.first_us or o.first_interval_us <> n.first_interval_us)
union all
select o.last_us, o.last_us + 1
from device o
join new_device n using (device_id)
where o.cluster = $cluster and (o.last_us <> n.last_us or o.last_interval_us <> n.last_interval_us);

insert into dirty_hour
with hour as (
    select distinct
        $cluster as cluster,
        unnest(range(start_us // 3600000000 - 1, (end_us - 1) // 3600000000 + 2)) * 3600000000 as hour_us
    from changed
)
select cluster, hour_us from hour
except
select cluster, hour_us from dirty_hour;

delete from segment where rowid in (select number from gone_segment);

insert into segment by name select * from come_segment order by device_id, start_us;

delete from attributed_day where cluster = $cluster and (parent_id, day) in (select (parent_id, day) from other_day);

insert into attributed_day
select $cluster, parent_id, day, digest from other_day where digest is not null order by parent_id, day;

delete from device where cluster = $cluster;

insert into device by name select * from new_device order by device_id;

delete from capacity where cluster = $cluster;

-- One row a physical GPU (or unnamed slice) and span in which it was owned without a break, computed from the evidence and not from the segments, so that the check
-- of the ledger compares two independent computations.
insert into capacity
select $cluster, w.parent_id, o.start_us, o.end_us, 1, 1
from owned_part o
join (select distinct gpu, parent_id from gpu_parent) w using (gpu)
union all
select $cluster, device_id, start_us, end_us, share_num, share_den
from unseen_device;

-- A row of come_run is a run that is new or reads otherwise than the stored one.
create or replace temp table come_run as
with queued as (
    select job_id, arg_max(queue, (coalesce(observed_us, admitted_us, submit_us, 0), queue)) as queue
    from workload
    where cluster = $cluster and queue is not null and job_id is not null
    group by job_id
),
word as (
    select * from run_word
    union all by name
    select
        l.run_id,
        c.user_name,
        c.account,
        coalesce(c.queue, q.queue) as queue,
        c.namespace,
        c.qos,
        c.name,
        c.labels,
        c.state as last_state,
        c.state as ended_state,
        c.submit_us,
        null::varchar as own
    from lone_claim l
    join claim c on c.rowid = l.number
    left join queued q on q.job_id = c.job_id
    where l.run_id not in (select run_id from run_word)
),
declared as (
    select
        w.run_id,
        any_value(w.scheduler) as scheduler,
        any_value(w.job_id) as job_id,
        any_value(w.run_key) as run_key,
        min(w.start_us) as start_us,
        max(w.end_us) as end_us,
        bool_and(w.ended) as ended,
        arg_max(w.pod_uid in (select pod_uid from guessed), (w.end_us, w.pod_uid))
        or w.run_id in (select run_id from ended_run where unlisted) as end_estimated
    from wanted w
    where w.run_id not in (select run_id from lone_claim)
    group by w.run_id
    union all
    select
        run_id,
        scheduler,
        job_id,
        run_key,
        start_us,
        end_us,
        ended,
        pod_uid in (select pod_uid from guessed) or run_id in (select run_id from ended_run where unlisted)
    from wanted
    where run_id in (select run_id from lone_claim)
),
every as (
    select
        $cluster as cluster,
        d.*,
        true as declared,
        w.* exclude (run_id, last_state, ended_state),
        -- A record of the end that still reads "running" shows that the run ended, and not how.
        case
            when not d.ended then w.last_state
            when lower(w.ended_state) not in (
                'running', 'suspended', 'stopped', 'configuring', 'signaling', 'pending',
                'running_in_ray_get', 'running_in_ray_wait', 'alive', 'created'
            )
                then w.ended_state
        end as state
    from declared d
    join word w using (run_id)
    union all by name
    select
        $cluster as cluster,
        run_id,
        any_value(scheduler) as scheduler,
        any_value(job_id) as job_id,
        any_value(run_key) as run_key,
        min(start_us) as start_us,
        max(end_us) as end_us,
        max(end_us) + $label_lag_us < (select max(last_us) from seen) as ended,
        false as declared,
        null::varchar as user_name,
        null::varchar as account,
        null::varchar as queue,
        max(namespace) as namespace,
        null::varchar as qos,
        max(coalesce(pod, job)) as name,
        null::varchar as labels,
        null::varchar as state,
        null::bigint as submit_us
    from observed_hold
    where run_id not in (select run_id from wanted)
    group by run_id
)
select n.*
from every n
left join run r on r.run_id = n.run_id and r.cluster = $cluster
where r.run_id is null
    or n.scheduler is distinct from r.scheduler
    or n.job_id is distinct from r.job_id
    or n.run_key is distinct from r.run_key
    or n.declared is distinct from r.declared
    or n.user_name is distinct from r.user_name
    or n.account is distinct from r.account
    or n.queue is distinct from r.queue
    or n.namespace is distinct from r.namespace
    or n.qos is distinct from r.qos
    or n.name is distinct from r.name
    or n.labels is distinct from r.labels
    or n.state is distinct from r.state
    or n.submit_us is distinct from r.submit_us
    or n.start_us is distinct from r.start_us
    or n.end_us is distinct from r.end_us
    or n.ended is distinct from r.ended
    or n.own is distinct from r.own
    or n.end_estimated is distinct from r.end_estimated;

create or replace temp table gone_run as
select rowid as number, r.*
from run r
where cluster = $cluster
    and (
        run_id in (select run_id from come_run)
        or run_id not in (select run_id from wanted union all select run_id from observed_hold)
    );

-- The teams of runs whose words changed are decided again.
delete from run_team
where cluster = $cluster
    and run_id in (
        select o.run_id
        from gone_run o
        join come_run n using (run_id)
        where o.labels is distinct from n.labels
            or o.queue is distinct from n.queue
            or o.namespace is distinct from n.namespace
            or o.account is distinct from n.account
            or o.user_name is distinct from n.user_name
            or o.own is distinct from n.own
    );

delete from run where rowid in (select number from gone_run);

insert into run by name select * from come_run order by run_id;

-- Daily sums are grouped by these labels, and by the kind of work that follows from them: where one of a run's labels changed, its
-- days are rolled up again.
delete from rolled_day
where cluster = $cluster
    and day_us in (
        select day_us
        from book_day
        where cluster = $cluster
            and run_id in (
                select run_id
                from gone_run o
                full join come_run n using (run_id)
                where o.user_name is distinct from n.user_name
                    or o.queue is distinct from n.queue
                    or o.namespace is distinct from n.namespace
                    or o.account is distinct from n.account
                    or o.scheduler is distinct from n.scheduler
                    or o.name is distinct from n.name
                    or o.labels is distinct from n.labels
            )
    );
