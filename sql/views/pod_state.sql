-- Whether a pod's state says that none of its containers with GPUs was ever started, for a reason that does not go away by itself.
create or replace temp macro never_started(state) as
coalesce(
    state in ('ImagePullBackOff', 'CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'), false
);

-- Whether its containers with GPUs were started again and again after errors.
create or replace temp macro failed_again(labels) as
(labels ->> '$."gpuwatch.io/last-exit"') is not null;
