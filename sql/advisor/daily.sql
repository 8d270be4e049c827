-- A row is a decision about a cluster that this connection reckoned, what it followed from (stamp), and its cases as JSON.
create temp table if not exists reckoned (
    cluster varchar,
    name varchar,
    stamp varchar,
    cases varchar
);
