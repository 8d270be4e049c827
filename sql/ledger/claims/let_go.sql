-- A row of let_go is a node of a run of Slurm that a later record of the run, of the same kind, does not have: the job released it
-- between the two. It is held up to the last record that has it, and while samples of the node name the job, at most up to gone_us.
-- Where records of two kinds lack the node, the later end counts.
create or replace temp table let_go as
with on_node as (
    select job_id, run_key, kind, node, max(greatest(start_us, evidence_us)) as last_us
    from claim
    -- A live source has the time of the change.
    where cluster = $cluster and scheduler = 'slurm' and file_id is not null and node is not null and evidence_us is not null
    group by job_id, run_key, kind, node
    qualify count(*) over (partition by job_id, run_key, kind) > 1
        and min(last_us) over (partition by job_id, run_key, kind) < max(last_us) over (partition by job_id, run_key, kind)
),
released as (
    select o.job_id, o.run_key, o.node, o.last_us, min(c.evidence_us) as gone_us
    from on_node o
    join claim c
        on c.cluster = $cluster and c.scheduler = 'slurm' and c.file_id is not null and c.job_id = o.job_id
        and c.run_key = o.run_key and c.kind = o.kind and c.evidence_us > o.last_us
    group by all
),
named as (
    select r.job_id, r.run_key, r.node, max(o.last_us + n.last_interval_us // 2) as last_us
    from released r
    join seen n using (node)
    join owner_span o
        on o.device_id = n.device_id and o.job in (r.job_id, split_part(r.run_key, '@', 1))
        and o.first_us < r.gone_us and o.last_us > r.last_us
    group by all
)
select
    ('0x' || substr(md5(concat_ws(chr(31), $cluster, 'slurm', r.job_id, r.run_key)), 1, 15))::bigint as run_id,
    r.node,
    max(greatest(r.last_us, least(coalesce(n.last_us, 0), r.gone_us))) as end_us
from released r
left join named n using (job_id, run_key, node)
group by r.job_id, r.run_key, r.node;

update wanted
set end_us = g.end_us, ended = true
from let_go g
where wanted.run_id = g.run_id and wanted.node = g.node and wanted.end_us > g.end_us;
