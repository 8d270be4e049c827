-- A row of gang is a run that held two or more whole GPUs of one model at one time, all of them from soon after its start:
-- those of the evaluated hours whose placement can be graded. Their devices must be known, not estimated; a run that grew,
-- shrank or moved is elastic; labels may declare that distance does not matter.
create or replace temp table gang as
with judged_run as (
    select run_id, chain, start_us, end_us, ended
    from job_chain
    where end_us > $from_us and start_us < $until_us
        and not exempt
        and not coalesce(
            lower(coalesce(labels ->> '$."gpuwatch.io/elastic"', labels ->> '$.elastic')) = 'true', false
        )
        and not coalesce(
            lower(coalesce(labels ->> '$."gpuwatch.io/parallelism"', labels ->> '$.parallelism')) in (
                'pipeline', 'pp', 'parameter-server', 'trials', 'independent', 'none'
            ),
            false
        )
        and not coalesce(
            lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"')) in (
                'hpo',
                'inference',
                'serving',
                'batch-inference',
                'latency-critical',
                'independent-trials',
                'embarrassingly-parallel'
            ),
            false
        )
        and not latency_critical
        and coalesce(
            labels ->> '$."katib.kubeflow.org/experiment"', labels ->> '$."serving.kserve.io/inferenceservice"'
        ) is null
),
spanned as (
    select
        h.run_id,
        h.device_id,
        min(h.start_us) as start_us,
        max(h.end_us) as end_us,
        bool_and(h.sure) as sure,
        bool_and(h.share_num = h.share_den) as whole
    from held h
    join judged_run r using (run_id)
    group by h.run_id, h.device_id
),
sized as (
    select
        s.run_id,
        min(s.start_us) as first_us,
        max(s.start_us) as at_us,
        min(s.end_us) as until_us,
        count(*) as devices,
        any_value(d.model) as model,
        list(distinct coalesce(d.pool, '') order by coalesce(d.pool, '')) as pools,
        list(d.gpu order by d.gpu) as gpus
    from spanned s
    join device d on d.device_id = s.device_id and d.cluster = $cluster
    group by s.run_id
    having count(*) between 2 and $devices_max
        and count(distinct d.gpu) = count(*)
        and count(distinct d.model) = 1
        and bool_and(d.model is not null and d.gi < 0 and s.sure and s.whole)
        and max(s.start_us) - min(s.start_us) <= $gang_us
        and min(s.end_us) > max(s.start_us)
)
select z.*, r.chain, r.start_us as run_start_us, case when r.ended then r.end_us end as run_end_us
from sized z
join judged_run r using (run_id);

-- A row of gang_link is a gang and five minutes: means over its devices of link traffic, and the part of engine time below
-- the peak rates. talking: in a half hour in which its links were in use.
create or replace temp table gang_link as
with member as (
    select g.run_id, h.device_id, h.start_us, g.devices, g.run_start_us, g.run_end_us
    from gang g
    join held h using (run_id)
),
seen as (
    select
        m.run_id,
        w.start_us,
        any_value(m.devices) as devices,
        sum(w.covered_us) as covered_us,
        exact_mean(w.link_ratio) as link_ratio,
        exact_mean(w.pcie_bytes_per_s) as pcie_bytes_per_s,
        -- Unknown without SM_ACTIVE or without any reading of the pipes.
        exact_mean(
            case
                when w.sm_active_ratio is not null and coalesce(w.tensor_active_ratio, w.fp_active_ratio) is not null
                    then w.gr_engine_ratio - least(
                        w.gr_engine_ratio,
                        w.sm_active_ratio,
                        greatest(
                            w.tensor_active_ratio / $tensor_roof,
                            coalesce(w.dram_active_ratio / $dram_roof, 0),
                            coalesce(w.fp_active_ratio, 0)
                        )
                    )
            end
        ) as slack_ratio
    from device_window w
    join member m on m.device_id = w.device_id and m.start_us = w.segment_start_us
    where w.cluster = $cluster and w.hour_us >= $from_us and w.hour_us < $until_us
        and w.start_us >= m.run_start_us + $warm_up_us
        and w.start_us + 300000000 <= coalesce(m.run_end_us - $cool_down_us, w.start_us + 300000000)
    group by m.run_id, w.start_us
),
behind as (
    select
        *,
        count(*) over half_hour = 6
        and sum(covered_us) over half_hour >= $coverage_min * 1800000000 * devices
        and (
            coalesce(avg(link_ratio) over half_hour >= $quiet_link_ratio, false)
            or coalesce(avg(pcie_bytes_per_s) over half_hour >= $quiet_pcie_bytes_per_s, false)
        ) as talked
    from seen
    window half_hour as (
        partition by run_id order by start_us range between 1500000000 preceding and current row
    )
)
select
    run_id,
    start_us,
    covered_us,
    link_ratio,
    pcie_bytes_per_s,
    slack_ratio,
    bool_or(talked) over (
        partition by run_id order by start_us range between current row and 1500000000 following
    ) as talking
from behind;

-- Gangs to be graded: their links are in use in the evaluated hours, and not all of their GPUs are in one NVLink domain.
create or replace temp table asked_gang as
with used as (
    select distinct run_id from gang_link where talking and start_us >= $since_us
),
domain as (
    select g.run_id, count(e.parent) as placed, count(distinct e.parent) as domains
    from (select run_id, at_us, unnest(gpus) as gpu from gang) g
    join topology_edge e
        on e.cluster = $cluster and e.child_kind = 'gpu' and e.child = g.gpu and e.parent_kind = 'nvlink'
        and coalesce(e.valid_from_us <= g.at_us, true) and coalesce(e.valid_until_us > g.at_us, true)
    group by g.run_id
)
select g.*
from gang g
join used u using (run_id)
left join domain d using (run_id)
where not coalesce(d.placed = g.devices and d.domains = 1, false)
order by g.at_us, g.run_id
limit $gangs_max;
