-- Whether a run is a session of somebody who types: by its class, its partition, its name (`srun --pty bash` is called bash, `salloc` interactive), or
-- the labels of JupyterHub and Kubeflow notebooks.
create or replace temp macro is_session(labels, queue, name) as
coalesce(
    lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"'))
        in ('interactive', 'notebook', 'debug')
    or json_exists(labels, '$."hub.jupyter.org/username"')
    or json_exists(labels, '$."notebook-name"'),
    false
)
or contains(lower(coalesce(queue, '')), 'interactive')
or regexp_matches(
    lower(coalesce(name, '')),
    '^(interactive|bash|sh|zsh|wrap|code-server|vscode.*|jupyter.*|.*notebook.*|sys/dashboard.*|ood[-_/].*)$'
);
