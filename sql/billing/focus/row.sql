-- A row is a row of the export: columns of every version of FOCUS by their names, and gpuwatch's own. Numbers are in units
-- of 10^-12, times in microseconds. Kind 1 is usage, 2 what was bought, 3 what has no price. It is one statement, since what
-- temporary tables hold is kept until the export is done, of every day of it; and in no order, since rows are wide.
with
-- A row of focus_segment is a segment of the day, cut at its ends.
focus_segment as materialized (
    select
        s.cluster,
        s.device_id,
        s.profile,
        s.run_id,
        case when s.run_id is null then s.free_bucket end as free_bucket,
        s.method,
        s.split,
        s.start_us,
        s.end_us,
        greatest(s.start_us, $from_us) as from_us,
        least(s.end_us, $to_us) as to_us,
        s.share_num * ($scale // s.share_den) as share
    from segment s
    where s.start_us < $to_us and s.end_us > $from_us and ($cluster is null or s.cluster = $cluster)
),

-- A row of focus_time is a segment and one price: its time, of which stranded_us is what the usual requests could not have used
-- (ledger/strand.sql).
focus_time as materialized (
    select
        p.price_id,
        s.*,
        greatest(s.from_us, p.from_us) as a_us,
        least(s.to_us, p.to_us) as b_us
    from focus_segment s
    join focus_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        and p.from_us < s.to_us and p.to_us > s.from_us
),
focus_stranded as materialized (
    select
        f.price_id,
        f.device_id,
        f.a_us,
        f.share,
        sum(
            (2 * (least(t.end_us, f.b_us) - t.start_us)::hugeint * t.lost + t.weight) // (2 * t.weight)
            - (2 * (greatest(t.start_us, f.a_us) - t.start_us)::hugeint * t.lost + t.weight) // (2 * t.weight)
        )::bigint as us
    from focus_time f
    join device d on d.device_id = f.device_id and d.cluster = f.cluster
    join stranding t
        on t.cluster = f.cluster
        and t.place = case when d.gi >= 0 then d.gpu else coalesce(d.node, d.gpu) end
        and t.model is not distinct from nullif(d.model, '')
        and t.partitioned = (d.gi >= 0) and (d.gi >= 0 or d.profile is null)
        and t.milli = case when d.gi >= 0 then 0 else 1000 * f.share // $scale end
        and t.start_us < f.b_us and t.end_us > f.a_us
    where f.free_bucket = 'schedulable'
        and t.lost > 0
        and t.hour_us > $from_us - 3600000000 and t.hour_us < $to_us
    group by all
),

-- A row of focus_part is a device, its holder (or the bucket of unheld time) and one price: its time.
focus_part as materialized (
    select
        price_id,
        run_id,
        free_bucket,
        max(method) as method,
        max(split) as split,
        sum(us)::bigint as us,
        sum(us::hugeint * share) as units
    from (
        select f.*, f.b_us - f.a_us - coalesce(z.us, 0) as us
        from focus_time f
        left join focus_stranded z
            on f.free_bucket = 'schedulable'
            and z.price_id = f.price_id and z.device_id = f.device_id and z.a_us = f.a_us and z.share = f.share
        union all
        select f.* replace ('stranded' as free_bucket), z.us
        from focus_time f
        join focus_stranded z
            on z.price_id = f.price_id and z.device_id = f.device_id and z.a_us = f.a_us and z.share = f.share
        where f.free_bucket = 'schedulable'
    )
    where us > 0
    group by price_id, run_id, free_bucket
),

-- A row of focus_minute is a part of a minute of a cut hour, at one price: its time by bucket.
focus_minute as (
    select
        p.price_id,
        s.run_id,
        s.share,
        m.device_id,
        m.hour_us,
        columns('^(hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
        * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us)
    from device_minute m
    join focus_cut using (hour_us)
    join focus_segment s
        on s.device_id = m.device_id and s.cluster = m.cluster and s.run_id is not null
        and m.start_us >= s.start_us and m.end_us <= s.end_us
    join focus_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        and p.from_us < m.end_us and p.to_us > m.start_us
        -- What lies in a whole hour comes from the ledger.
        and (p.from_us > m.hour_us or p.to_us < m.hour_us + 3600000000)
    where m.hour_us >= getvariable('focus_cut_from_us') and m.hour_us <= getvariable('focus_cut_until_us')
),

-- A row of focus_claimed is what findings claim of the below_roof time of a held part, in units. Of a cut hour each price has
-- as much as it has of the hour's below_roof time.
focus_claimed as (
    with hourly as (
        select c.*, c.share_num * ($scale // c.share_den) as share
        from claimed_hour c
        where c.hour_us > $from_us - 3600000000 and c.hour_us < $to_us
    ),
    whole as (
        select p.price_id, c.run_id, c.claimed_us::hugeint * c.share as units
        from hourly c
        join focus_price p
            on p.device_id = c.device_id and p.profile is not distinct from c.profile and p.cluster = c.cluster
            and p.from_us <= c.hour_us and p.to_us >= c.hour_us + 3600000000
    ),
    part as (
        select price_id, run_id, share, device_id, hour_us, sum(below_roof_us) as us
        from focus_minute
        group by all
    ),
    cut as (
        select t.price_id, t.run_id, t.us::hugeint * c.claimed_us // l.below_roof_us * t.share as units
        from part t
        join hourly c
            on c.device_id = t.device_id and c.run_id = t.run_id and c.hour_us = t.hour_us and c.share = t.share
        join ledger_hour l
            on l.cluster = c.cluster and l.device_id = c.device_id and l.run_id = c.run_id and l.hour_us = c.hour_us
            and l.profile is not distinct from c.profile and l.share_num = c.share_num and l.share_den = c.share_den
        where l.below_roof_us > 0
    )
    select price_id, run_id, sum(units) as claimed
    from (from whole union all from cut)
    group by price_id, run_id
),

-- A row of focus_bucket is a held part and its units by bucket, as far as the ledger has them. Hours that are cut come
-- from their minutes.
focus_bucket as (
    with booked as (
        select
            p.price_id,
            l.run_id,
            l.share_num * ($scale // l.share_den) as share,
            columns('^(hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
        from ledger_hour l
        join focus_price p
            on p.device_id = l.device_id and p.profile is not distinct from l.profile and p.cluster = l.cluster
            and p.from_us <= l.hour_us and p.to_us >= l.hour_us + 3600000000
        where l.run_id is not null and l.hour_us >= $from_us and l.hour_us < $to_us
        union all
        select
            price_id,
            run_id,
            share,
            columns('^(hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
        from focus_minute
    ),
    -- Microseconds are summed as they are: only the few sums need 128 bits.
    shared as (
        select
            price_id,
            run_id,
            share::hugeint as share,
            sum(columns('_us$'))::bigint
        from booked
        group by price_id, run_id, share
    )
    select
        price_id,
        run_id,
        sum(columns('(.*)_us$') * share) as '\1'
    from shared
    group by price_id, run_id
),

-- A row of focus_active is a part that was held and how active its multiprocessors were, by the five-minute means in it.
focus_active as (
    select
        p.price_id,
        s.run_id,
        sum(w.sm_active_ratio * w.covered_us) / sum(w.covered_us) as sm_active_ratio
    from (
        select device_id, cluster, segment_start_us, start_us, sm_active_ratio, covered_us
        from device_window
        where hour_us > $from_us - 3600000000 and hour_us < $to_us
            and start_us >= $from_us and start_us < $to_us
            and sm_active_ratio is not null and covered_us > 0
    ) w
    join focus_segment s
        on s.device_id = w.device_id and s.start_us = w.segment_start_us and s.cluster = w.cluster and s.run_id is not null
    join focus_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        and p.from_us <= w.start_us and p.to_us > w.start_us
    group by p.price_id, s.run_id
),

-- A row of focus_row is a row of the export. Its numbers are what cumulative rounding gives it of its origin's, so that the
-- rows of an origin add up to the origin, and each is less than one unit of the last decimal from its exact share:
-- quantities are in units of 1 / quantity_one, cost and ratio of 10^-12, consumed of 10^-6. An origin is a bill_id, and of
-- committed GPUs what was used or not.
focus_row as materialized (
    with origin as (
        select
            f.*,
            p.bill_id,
            p.price,
            p.list_price,
            p.contracted_price,
            p.quantity_one,
            p.cost_step,
            2 * p.bill_id + (case when p.commitment_id is not null and f.run_id is null then 1 else 0 end) as origin_id,
            sum(f.units) over (partition by origin_id) as whole,
            sum(f.units) over (
                partition by origin_id
                order by p.price_id, f.run_id, f.free_bucket
                rows between unbounded preceding and current row
            ) as upto,
            upto - f.units as before
        from focus_part f
        join focus_price p using (price_id)
        -- A process that used nothing of a shared GPU has no part in it.
        where p.price is not null and f.units > 0
    ),
    quantity as (
        select
            *,
            (2 * upto * quantity_one + $scale * 3600000000) // (2 * $scale * 3600000000) as quantity_upto,
            (2 * before * quantity_one + $scale * 3600000000) // (2 * $scale * 3600000000) as quantity_before
        from origin
    )
    select
        q.*,
        quantity_upto - quantity_before as quantity,
        (2 * upto + $scale) // (2 * $scale) - (2 * before + $scale) // (2 * $scale) as consumed,
        -- Doubles hold parts of one to the last place, and the last of them is one.
        (
            round(upto::double / whole::double * 1000000000000) - round(before::double / whole::double * 1000000000000)
        )::hugeint as ratio,
        -- 10^12 / (3600 * 10^6) is 2500 / 9.
        (2 * upto * price * 2500 + $cost_den::hugeint) // (2 * $cost_den::hugeint) as effective_upto,
        (2 * before * price * 2500 + $cost_den::hugeint) // (2 * $cost_den::hugeint) as effective_before,
        effective_upto - effective_before as effective,
        case
            when cost_step = 1 then quantity * list_price
            else
                (2 * quantity_upto * list_price + cost_step) // (2 * cost_step)
                - (2 * quantity_before * list_price + cost_step) // (2 * cost_step)
        end as list,
        case
            when cost_step = 1 then quantity * contracted_price
            else
                (2 * quantity_upto * contracted_price + cost_step) // (2 * cost_step)
                - (2 * quantity_before * contracted_price + cost_step) // (2 * cost_step)
        end as contracted
    from quantity q
),

-- A row of focus_run is a run of the day, its team, and its labels with gpuwatch's own words as tags.
focus_run as (
    select
        r.run_id,
        coalesce(t.team, '__unallocated__') as team,
        r.run_key,
        r.job_id,
        r.user_name,
        r.account,
        r.queue,
        r.namespace,
        json_merge_patch(
            case when json_valid(r.labels) and json_type(r.labels) = 'OBJECT' then r.labels else '{}' end,
            json_object(
                'gpuwatch/team', coalesce(t.team, '__unallocated__'),
                'gpuwatch/team-inferred', case when t.inferred then 'true' end,
                'gpuwatch/cluster', r.cluster,
                'gpuwatch/scheduler', r.scheduler,
                'gpuwatch/user', r.user_name,
                'gpuwatch/account', r.account,
                'gpuwatch/queue', r.queue,
                'gpuwatch/namespace', r.namespace,
                'gpuwatch/job', r.job_id
            )
        )::varchar as tags
    from run r
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where r.run_id in (select run_id from focus_row)
),

-- A row of focus_bill is what the rows of one device at one price have in common. Amounts are in units of 10^-12.
focus_bill as materialized (
    with base as (
        select
            *,
            -- The price before it was converted, over the price; both 1 where the price is nothing.
            case when price = 0 then 1 else base_price end as base_num,
            case when price = 0 then 1 else price end as base_den
        from focus_price
        where price is not null
    )
    select
        b.*,
        commitment_id is not null or pricing is not distinct from 'owned' as prepaid,
        (2 * list_price * 1000000000000 + $price_one::hugeint) // (2 * $price_one::hugeint) as list_unit,
        (2 * contracted_price * 1000000000000 + $price_one::hugeint) // (2 * $price_one::hugeint) as contracted_unit,
        (2 * list_unit * base_num + base_den) // (2 * base_den) as base_list_unit,
        (2 * contracted_unit * base_num + base_den) // (2 * base_den) as base_contracted_unit,
        case pricing
            when 'on_demand' then 'Standard'
            when 'reserved' then 'Committed'
            when 'spot' then 'Dynamic'
            else 'Other'
        end as pricing_category,
        replace(coalesce(pricing, 'price'), '_', '-') as pricing_word,
        'GPU time of ' || coalesce(model, 'a GPU of unknown model') || coalesce(' in ' || pool, '')
        || ', ' || pricing_word || ' at ' || price_text || ' ' || currency || ' a GPU-hour' as description,
        coalesce(node || coalesce(':' || gpu_index, ''), gpu) as resource_name,
        coalesce(sku, 'gpu-' || coalesce(trim(regexp_replace(lower(model), '[^a-z0-9]+', '-', 'g'), '-'), 'unknown')) as sku_id,
        sku_id || '/' || pricing_word || '/' || price_text || '-' || currency
        || case when list_text <> price_text then '/list-' || list_text else '' end
        || case when contracted_text <> price_text then '/contracted-' || contracted_text else '' end as sku_price_id,
        json_object('GpuCount', 1, 'x_GpuModel', model, 'x_Pricing', pricing)::varchar as sku_details
    from base b
),

divided as (
    select
        f.*,
        f.quantity * p.quantity_step as hours,
        coalesce(b.hoarded, 0) as c1,
        c1 + coalesce(b.gap, 0) as c2,
        c2 + coalesce(b.communication, 0) as c3,
        c3 + coalesce(b.stalled, 0) as c4,
        c4 + coalesce(b.below_roof, 0) as c5,
        c5 + coalesce(b.memory_roof, 0) as c6,
        least(c6 + coalesce(b.compute, 0), f.units) as seen,
        least(
            avoidable(
                c1, coalesce(b.gap, 0), coalesce(b.communication, 0), coalesce(b.stalled, 0), 0,
                coalesce(b.below_roof, 0), coalesce(g.claimed, 0)
            ),
            f.units
        ) as wasted,
        -- Cumulative rounding in the order of the buckets; what is left of the row was not observed. Time is no money: 24 hours
        -- are 2.4e13 of the last place, which doubles hold a hundred times over.
        hours::double / f.units::double as hours_unit,
        round(least(c1, f.units)::double * hours_unit)::hugeint as h1,
        round(least(c2, f.units)::double * hours_unit)::hugeint as h2,
        round(least(c3, f.units)::double * hours_unit)::hugeint as h3,
        round(least(c4, f.units)::double * hours_unit)::hugeint as h4,
        round(least(c5, f.units)::double * hours_unit)::hugeint as h5,
        round(least(c6, f.units)::double * hours_unit)::hugeint as h6,
        round(seen::double * hours_unit)::hugeint as h7,
        f.run_id is not null as held,
        a.sm_active_ratio
    from focus_row f
    join focus_bill p using (price_id)
    left join focus_bucket b on b.price_id = f.price_id and b.run_id = f.run_id
    left join focus_claimed g on g.price_id = f.price_id and g.run_id = f.run_id
    left join focus_active a on a.price_id = f.price_id and a.run_id = f.run_id
),

usage as (
    select
        1 as kind,
        f.origin_id,
        f.price_id,
        f.run_id,
        p.zone as "AvailabilityZone",
        case when p.prepaid then 0::hugeint else f.effective end as "BilledCost",
        p.cluster as "BillingAccountId",
        p.cluster as "BillingAccountName",
        p.currency as "BillingCurrency",
        p.description as "ChargeDescription",
        p.from_us // 1000000 * 1000000 as "ChargePeriodStart",
        (p.to_us + 999999) // 1000000 * 1000000 as "ChargePeriodEnd",
        case when p.commitment_id is not null then 'Usage' end as "CommitmentDiscountCategory",
        p.commitment_id as "CommitmentDiscountId",
        p.commitment_id as "CommitmentDiscountName",
        case when p.commitment_id is not null then f.hours end as "CommitmentDiscountQuantity",
        case when p.commitment_id is not null then case when f.held then 'Used' else 'Unused' end end
            as "CommitmentDiscountStatus",
        case when p.commitment_id is not null then 'Reservation' end as "CommitmentDiscountType",
        case when p.commitment_id is not null then 'GPU-Hours' end as "CommitmentDiscountUnit",
        case when p.commitment_id is not null then '{"CommitmentPrograms":[{"ProgramType":"Reservation"}]}' end
            as "CommitmentProgramEligibilityDetails",
        case when f.held or p.commitment_id is null then f.consumed * 1000000 end as "ConsumedQuantity",
        case when f.held or p.commitment_id is null then 'GPU-Seconds' end as "ConsumedUnit",
        f.contracted as "ContractedCost",
        p.contracted_unit as "ContractedUnitPrice",
        f.effective as "EffectiveCost",
        case when p.pricing = 'owned' then 'On-premises' end as "HostProviderName",
        f.list as "ListCost",
        p.list_unit as "ListUnitPrice",
        p.pricing_category as "PricingCategory",
        coalesce(p.base_currency, p.currency) as "PricingCurrency",
        p.base_contracted_unit as "PricingCurrencyContractedUnitPrice",
        case
            when p.base_num = p.base_den then f.effective
            else
                (2 * f.effective_upto * p.base_num + p.base_den) // (2 * p.base_den)
                - (2 * f.effective_before * p.base_num + p.base_den) // (2 * p.base_den)
        end as "PricingCurrencyEffectiveCost",
        p.base_list_unit as "PricingCurrencyListUnitPrice",
        f.hours as "PricingQuantity",
        p.region as "RegionId",
        p.region as "RegionName",
        p.gpu as "ResourceId",
        p.resource_name as "ResourceName",
        'GPU' as "ResourceType",
        p.sku_id as "SkuId",
        p.sku_details as "SkuPriceDetails",
        p.sku_price_id as "SkuPriceId",
        r.team as "SubAccountId",
        r.team as "SubAccountName",
        case when f.held then 'Team' end as "SubAccountType",
        'gpuwatch:' || coalesce(f.method, 'time') || '-share' || coalesce('.' || f.split || '-split', '') || ':v1'
            as "AllocatedMethodId",
        '{"Elements":[{"AllocatedRatio":'
        || (f.ratio::bigint::decimal(18, 0) * 0.000000000001::decimal(12, 12))
        || ',"UsageUnit":"GPU-Hours","UsageQuantity":'
        || (f.hours::bigint::decimal(18, 0) * 0.000000000001::decimal(12, 12))
        || coalesce(',"x_MigProfile":' || to_json(p.profile), '')
        || coalesce(',"x_Bucket":' || to_json(f.free_bucket), '')
        || '}]}' as "AllocatedMethodDetails",
        r.run_key || coalesce('/GI-' || case when p.gi >= 0 then p.gi end, '') as "AllocatedResourceId",
        r.job_id as "AllocatedResourceName",
        r.tags as "AllocatedTags",
        r.account as "x_Account",
        f.free_bucket as "x_Bucket",
        p.cluster as "x_Cluster",
        case when f.held and 10 * f.seen >= f.units and f.seen > 0
            then round((f.seen - least(f.c5, f.units))::double / f.seen::double * 1000000000000)::hugeint
        end as "x_EffectiveRatio",
        p.model as "x_GpuModel",
        p.gpu as "x_GpuUuid",
        case when f.free_bucket = 'schedulable' then f.hours else 0 end as "x_HoursSchedulable",
        case when f.free_bucket = 'stranded' then f.hours else 0 end as "x_HoursStranded",
        case when f.free_bucket = 'out_of_service' then f.hours else 0 end as "x_HoursOutOfService",
        case when f.free_bucket = 'mig_remainder' then f.hours else 0 end as "x_HoursMigRemainder",
        case when f.held then f.hours - f.h7 else 0 end as "x_HoursUnobserved",
        f.h1 as "x_HoursHoarded",
        f.h2 - f.h1 as "x_HoursGap",
        f.h3 - f.h2 as "x_HoursCommunication",
        f.h4 - f.h3 as "x_HoursStalled",
        f.h5 - f.h4 as "x_HoursBelowRoof",
        f.h6 - f.h5 as "x_HoursMemoryRoof",
        f.h7 - f.h6 as "x_HoursCompute",
        r.job_id as "x_Job",
        p.profile as "x_MigProfile",
        r.namespace as "x_Namespace",
        p.node as "x_Node",
        p.pool as "x_Pool",
        p.pricing as "x_Pricing",
        r.queue as "x_Queue",
        p.card || ':v' || p.card_version as "x_RateVersion",
        round(f.units::double / (f.us * $scale::hugeint)::double * 1000000000000)::hugeint as "x_Share",
        (f.sm_active_ratio * 1000000)::bigint::hugeint * 1000000 as "x_SmActiveRatio",
        coalesce(r.team, '__platform__') as "x_Team",
        r.user_name as "x_User",
        -- Unknown where nothing was measured, and out of service.
        case
            when f.free_bucket = 'stranded' then f.effective
            when f.free_bucket in ('schedulable', 'mig_remainder') then 0
            when f.seen > 0 then (2 * f.effective * f.wasted + f.units) // (2 * f.units)
        end as "x_WasteCost"
    from divided f
    join focus_bill p using (price_id)
    left join focus_run r on r.run_id = f.run_id
    where $teams::varchar[] is null or list_contains($teams::varchar[], coalesce(r.team, '__platform__'))
),

-- A row is what a part of the day cost of GPUs that are paid for whether they are used or not: owned, or committed to. Their
-- usage rows are billed nothing, this row is, and costs nothing beside them. Numbers are in units of 10^-12.
purchase as (
    select
        2 as kind,
        min(p.price_id) as price_id,
        p.cluster as "BillingAccountId",
        p.cluster as "BillingAccountName",
        p.currency as "BillingCurrency",
        sum(f.effective) as "BilledCost",
        0::hugeint as "EffectiveCost",
        sum(f.contracted) as "ContractedCost",
        sum(f.list) as "ListCost",
        max(p.contracted_unit) as "ContractedUnitPrice",
        max(p.list_unit) as "ListUnitPrice",
        sum(f.quantity * p.quantity_step) as "PricingQuantity",
        p.from_us // 1000000 * 1000000 as "ChargePeriodStart",
        (p.to_us + 999999) // 1000000 * 1000000 as "ChargePeriodEnd",
        case when p.commitment_id is null then 'Cost of owned GPUs: ' else 'Cost of committed GPUs: ' end || min(p.description)
            as "ChargeDescription",
        case when p.commitment_id is not null then 'Usage' end as "CommitmentDiscountCategory",
        p.commitment_id as "CommitmentDiscountId",
        p.commitment_id as "CommitmentDiscountName",
        case when p.commitment_id is not null then sum(f.quantity * p.quantity_step) end as "CommitmentDiscountQuantity",
        case when p.commitment_id is not null then 'Reservation' end as "CommitmentDiscountType",
        case when p.commitment_id is not null then 'GPU-Hours' end as "CommitmentDiscountUnit",
        case when p.commitment_id is null then 'On-premises' end as "HostProviderName",
        p.pricing_category as "PricingCategory",
        coalesce(p.base_currency, p.currency) as "PricingCurrency",
        max(p.base_contracted_unit) as "PricingCurrencyContractedUnitPrice",
        0::hugeint as "PricingCurrencyEffectiveCost",
        max(p.base_list_unit) as "PricingCurrencyListUnitPrice",
        p.commitment_id as "ResourceId",
        case when p.commitment_id is not null then 'Reservation' end as "ResourceType",
        p.sku_id as "SkuId",
        max(p.sku_details) as "SkuPriceDetails",
        p.sku_price_id as "SkuPriceId",
        p.cluster as "x_Cluster",
        p.model as "x_GpuModel",
        p.pool as "x_Pool",
        p.pricing as "x_Pricing",
        '__platform__' as "x_Team"
    from focus_row f
    join focus_bill p using (price_id)
    where p.prepaid and ($teams::varchar[] is null or list_contains($teams::varchar[], '__platform__'))
    group by
        p.cluster, p.currency, p.base_currency, p.from_us, p.to_us, p.commitment_id, p.pricing, p.pricing_category, p.sku_id,
        p.sku_price_id, p.model, p.pool
),

-- A row of unpriced is what has no price: units, the words by which a rate is missing, and since when.
unpriced as (
    select
        3 as kind,
        min(f.price_id) as price_id,
        p.cluster as "x_Cluster",
        p.pool as "x_Pool",
        p.model as "x_GpuModel",
        p.profile as "x_MigProfile",
        min(p.from_us) as first_us,
        sum(f.units) as units
    from focus_part f
    join focus_price p using (price_id)
    left join run_team t on t.run_id = f.run_id
    where p.price is null
        and (
            $teams::varchar[] is null
            or list_contains(
                $teams::varchar[],
                case when f.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end
            )
        )
    group by p.cluster, p.pool, p.model, p.profile
)

select *
from usage
union all by name
select *
from purchase
union all by name
select *
from unpriced;
