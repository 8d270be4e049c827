-- Whether a run's start or end was estimated, because its local time is of an hour that clocks repeat or skip. A comment of the user
-- may have the same words as a value.
create or replace temp macro is_estimated_time(labels) as
coalesce((labels ->> '$."gpuwatch.io/local-time"') = 'estimated', false);
