-- The runs that held something: a row of wanted that lasted no time is none.
delete from wanted where end_us <= start_us;

-- A row of nested is a run on a "node" that itself is held by another scheduler's run, and that outer run.
create or replace temp table nested (
    scheduler varchar,
    run_id bigint,
    pod_uid varchar,
    node varchar,
    outer_scheduler varchar,
    outer_run_id bigint,
    outer_pod_uid varchar,
    outer_start_us bigint,
    outer_end_us bigint
);

-- A row of fraction_unit is a run (and pod) that holds a part of each of its devices, in ten-thousandths; `shared` if it holds
-- shares of them.
create or replace temp table fraction_unit as
select run_id, pod_uid, min(units) as units, bool_or(shares is not null) as shared
from wanted
where units < 10000
group by run_id, pod_uid;
