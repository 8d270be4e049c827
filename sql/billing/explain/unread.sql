-- No bucket was read.
create or replace temp table line_bucket as
select
    0::bigint as key,
    0::bigint as unobserved,
    0::bigint as hoarded,
    0::bigint as gap,
    0::bigint as communication,
    0::bigint as stalled,
    0::bigint as below_roof,
    0::bigint as memory_roof,
    0::bigint as compute
where false;
