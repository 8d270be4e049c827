-- Records what could not be evaluated in the evaluated hours.
delete from unjudged
where cluster = $cluster and detector = $detector
    and (
        (start_us >= $since_us and start_us < $until_us)
        or run_id not in (select run_id from run where cluster = $cluster)
    );

insert into unjudged
select $detector, $cluster, run_id, device_id, start_us, end_us, reason
from new_unjudged
where start_us >= $since_us and start_us < $until_us
order by run_id, device_id, start_us;
