-- A row is a UTC day, an account, a currency and what its lines of the bill are: `gpu` lines by resource, model and
-- pricing, all others together. cost and gpu_hours are whole numbers of 10^-18; lines over several days are cut at
-- midnight by cumulative shares, so that a line's parts add up to it. timed: all its lines are hours.
with line as (
    select
        b.*,
        case when $effective then coalesce(effective_cost, billed_cost) else billed_cost end as amount,
        greatest(end_us, start_us + 1000000) as until_us
    from bill b
    where file_id in (select file_id from bill_file) and start_us < $end_us and until_us > $start_us
),
classed as (
    select
        *,
        case
            when category = 'Tax' then 'tax'
            when category in ('Credit', 'Adjustment') then 'discount'
            when category = 'Purchase' or commitment_status = 'Unused' then 'commitment'
            when gpu_count is not null then 'gpu'
            else 'not_gpu'
        end as class
    from line
),
split as (
    select
        *,
        unnest(
            range(
                greatest(start_us, $start_us) // 86400000000 * 86400000000,
                least(until_us, $end_us),
                86400000000
            )
        ) as day_us,
        greatest((until_us - start_us) // 1000000, 1) as length_s,
        least((greatest(day_us, start_us) - start_us) // 1000000, length_s) as from_s,
        least((least(day_us + 86400000000, until_us) - start_us) // 1000000, length_s) as to_s,
        replace(amount::varchar, '.', '')::hugeint as units,
        -- No line has a milliard hours: such a quantity tells no hours, and times the GPUs it would not fit.
        case
            when gpu_count = 0 then 0
            when unit = 'Hours' and abs(quantity) < 1000000000 then replace(quantity::varchar, '.', '')::hugeint * gpu_count
        end as hours
    from classed
),
part as (
    select
        *,
        (units // length_s * to_s + units % length_s * to_s // length_s)
        - (units // length_s * from_s + units % length_s * from_s // length_s) as cost_part,
        (hours // length_s * to_s + hours % length_s * to_s // length_s)
        - (hours // length_s * from_s + hours % length_s * from_s // length_s) as hours_part
    from split
)
select
    day_us,
    provider,
    account,
    sub_account,
    currency,
    class,
    case when class = 'gpu' then resource end as resource,
    case when class = 'gpu' then resource_name end as resource_name,
    case
        when class = 'gpu' and tags is not null then coalesce(
            json_extract_string(tags, '$."gpuwatch.io/node"'),
            json_extract_string(tags, '$."kubernetes.io/hostname"'),
            json_extract_string(tags, '$."user:Name"'),
            json_extract_string(tags, '$."user_name"'),
            json_extract_string(tags, '$."Name"')
        )
    end as tagged,
    case when class = 'gpu' then gpu_model end as gpu_model,
    case when class = 'gpu' then region end as region,
    case when class = 'gpu' then pricing end as pricing,
    sum(cost_part)::varchar as cost,
    sum(hours_part)::varchar as gpu_hours,
    bool_and(hours_part is not null) as timed,
    min(billing_start_us) as billing_start_us
from part
group by all
order by all;
