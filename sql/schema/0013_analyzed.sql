-- What the last finished analysis of a cluster was made from, and means that do not depend on the order of rows.

-- A row is a cluster and the digest of the records that its devices, runs and segments follow from.
create table analyzed (
    cluster varchar,
    inputs varchar
);

-- Floating-point sums depend on the order of their terms, and so on threads and versions. These add whole numbers instead: x in
-- units of 2^-40, which is finer than the columns that keep such means.
create macro exact_sum(x) as sum(try_cast(x * 1099511627776 as hugeint))::double / 1099511627776;

create macro exact_mean(x) as sum(try_cast(x * 1099511627776 as hugeint))::double / count(x) / 1099511627776;

create macro exact_weighted_mean(x, weight) as
    sum(try_cast(x * 1099511627776 as hugeint) * weight)::double / sum(case when x is not null then weight end)
    / 1099511627776;

-- Pearson's correlation of two columns of whole numbers. NULL where one of them does not vary.
create macro exact_correlation(a, b) as
    (count(*)::hugeint * sum(a::hugeint * b::hugeint) - sum(a::hugeint) * sum(b::hugeint))::double
    / nullif(
        sqrt((count(*)::hugeint * sum(a::hugeint * a::hugeint) - sum(a::hugeint) * sum(a::hugeint))::double)
        * sqrt((count(*)::hugeint * sum(b::hugeint * b::hugeint) - sum(b::hugeint) * sum(b::hugeint))::double),
        0
    );
