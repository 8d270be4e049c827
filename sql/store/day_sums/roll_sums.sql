-- Sums the rows of book_day of one cluster on the days of moved_day by labels, by slices and by teams.
delete from word_day where cluster = $cluster and day_us in (select day_us from moved_day);

insert into word_day by name
select
    b.cluster,
    b.day_us,
    b.class_id,
    min(b.run_id) as run_id,
    b.share_num,
    b.share_den,
    min(b.first_us) as first_us,
    sum(columns('^(charged|schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$'))::bigint
from book_day b
left join run r on r.run_id = b.run_id and r.cluster = b.cluster
left join run_team t on t.run_id = b.run_id and t.cluster = b.cluster
where b.cluster = $cluster and b.day_us in (select day_us from moved_day)
group by
    b.cluster, b.day_us, b.class_id, b.share_num, b.share_den, b.run_id is null, t.team, coalesce(t.inferred, false), r.user_name,
    r.queue, r.namespace, r.account, work_kind(r.scheduler, r.labels, r.queue, r.namespace, r.name)
order by all;

delete from slice_day where cluster = $cluster and day_us in (select day_us from moved_day);

insert into slice_day by name
select
    b.cluster,
    b.day_us,
    b.class_id,
    b.device_id,
    b.run_id is not null as held,
    case when b.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner,
    b.share_num,
    b.share_den,
    min(b.first_us) as first_us,
    sum(columns('^(charged|schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$'))::bigint
from book_day b
left join run_team t on t.run_id = b.run_id and t.cluster = b.cluster
where b.cluster = $cluster and b.day_us in (select day_us from moved_day)
group by all
order by all;

-- Runs that word_day merges belong to one team, which a rule decides for all of them or for none, and are of one kind of work.
delete from team_day where cluster = $cluster and day_us in (select day_us from moved_day);

insert into team_day by name
select
    w.cluster,
    w.day_us,
    w.class_id,
    w.run_id is not null as held,
    case when w.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner,
    w.share_num,
    w.share_den,
    min(w.first_us) as first_us,
    sum(columns('^(charged|schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$'))::bigint
from word_day w
left join run_team t on t.run_id = w.run_id and t.cluster = w.cluster
where w.cluster = $cluster and w.day_us in (select day_us from moved_day)
group by all
order by all;

-- Their sums get a new version.
delete from day_stamp where cluster = $cluster and day_us in (select day_us from moved_day);

insert into day_stamp select $cluster, day_us, uuid()::varchar from moved_day;
