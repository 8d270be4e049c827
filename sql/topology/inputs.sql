-- A row is a digest of what a cluster's topology is derived from: a repeated word of a source changes nothing of it.
with said as (
    select node, coalesce(observed_us, 0) as at_us, max(labels) as labels
    from node
    where cluster = $cluster and scheduler = 'kubernetes' and labels is not null
    group by all
),
labelled as (
    select node, at_us, labels
    from said
    qualify labels is distinct from lag(labels) over (partition by node order by at_us)
)
select
    $version
    || ' link ' || (select count(*) || ',' || coalesce(max(observed_us), 0) from link where cluster = $cluster)
    || ' label ' || (select count(*) || ',' || coalesce(sum(hash(node, at_us, labels)::hugeint), 0) from labelled)
    || ' node ' || (
        select count(*) || ',' || coalesce(sum(hash(node, gpu_model)::hugeint), 0)
        from (select distinct node, gpu_model from node where cluster = $cluster)
    )
    || ' context ' || (select count(*) from context where cluster = $cluster) as inputs;
