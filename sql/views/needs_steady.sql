-- Why a run must not be taken away, in one expression: 'serves', 'deadline', 'asked' (its own label refuses spot), or NULL.
-- Pods of Deployments, StatefulSets and LeaderWorkerSets serve: batch work has controllers that end.
create or replace temp macro needs_steady(labels, name) as
case
    when lower(labels ->> '$."gpuwatch.io/spot"') in ('false', 'no', 'never') then 'asked'
    when json_exists(labels, '$."gpuwatch.io/deadline"') then 'deadline'
    when lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"')) is not null
        then case
            when lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"'))
                in ('inference', 'serving', 'latency-critical', 'interactive')
                then 'serves'
        end
    when lower(coalesce(labels ->> '$."latency-critical"', labels ->> '$."gpuwatch.io/latency-critical"')) = 'true'
        or json_exists(labels, '$."serving.kserve.io/inferenceservice"')
        or json_exists(labels, '$."ray.io/serve"')
        or json_exists(labels, '$."pod-template-hash"')
        or json_exists(labels, '$."statefulset.kubernetes.io/pod-name"')
        or json_exists(labels, '$."leaderworkerset.sigs.k8s.io/name"')
        or regexp_matches(
            lower(coalesce(name, '')),
            '(^|[-_./ ])(vllm|sglang|tgi|triton|tritonserver|nim|ollama|inference|serving|server|predictor)($|[-_./ ])'
        )
        then 'serves'
end;
