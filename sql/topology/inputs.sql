-- A row is a digest of what a cluster's topology is derived from; a repeated report does not change it.
with label_record as (
    select node, coalesce(observed_us, 0) as at_us, max(labels) as labels
    from node
    where cluster = $cluster and scheduler = 'kubernetes' and labels is not null
    group by all
),
labelled as (
    select node, at_us, labels
    from label_record
    qualify labels is distinct from lag(labels) over (partition by node order by at_us)
),
-- A statement of links is all rows of one instant of a node, of an object, or of a topology of Slurm's configuration.
stated as (
    select
        case
            when level in ('SWITCH', 'BLOCK') and json_valid(detail)
                then chr(30) || (detail ->> 'plugin') || chr(31) || coalesce(detail ->> 'topology', '')
            when level in ('LEVEL', 'HYPERNODE') then level || chr(30) || a
            else node
        end as scope,
        coalesce(observed_us, 0) as at_us,
        sum(hash(node, a, b, level, detail)::hugeint) as content
    from (select distinct node, a, b, level, detail, observed_us from link where cluster = $cluster)
    group by all
),
linked as (
    select scope, at_us, content
    from stated
    qualify content is distinct from lag(content) over (partition by scope order by at_us)
)
select
    $version
    || ' link ' || (select count(*) || ',' || coalesce(sum(hash(scope, at_us, content)::hugeint), 0) from linked)
    || ' label ' || (select count(*) || ',' || coalesce(sum(hash(node, at_us, labels)::hugeint), 0) from labelled)
    || ' node ' || (
        select count(*) || ',' || coalesce(sum(hash(node, gpu_model)::hugeint), 0)
        from (select distinct node, gpu_model from node where cluster = $cluster)
    )
    || ' context ' || (select count(*) from context where cluster = $cluster) as inputs;
