{{- define "gpuwatch.name" -}}
{{- if contains "gpuwatch" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-gpuwatch" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpuwatch.labels" -}}
app.kubernetes.io/name: gpuwatch
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "gpuwatch.selector" -}}
app.kubernetes.io/name: gpuwatch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpuwatch.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gpuwatch.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name an existing account, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gpuwatch.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "gpuwatch.claim" -}}
{{- .Values.persistence.existingClaim | default (printf "%s-data" (include "gpuwatch.name" .)) -}}
{{- end -}}

{{- define "gpuwatch.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "gpuwatch.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}

{{- define "gpuwatch.env" -}}
- name: GPUWATCH_DATA
  value: /data
{{- with .Values.stateUrl }}
{{- if .existingSecret }}
- name: GPUWATCH_STATE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- else if .value }}
- name: GPUWATCH_STATE_URL
  value: {{ .value | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpuwatch.url" -}}
{{- $root := index . 0 -}}
{{- printf "http://%s%s.%s.svc:%v" (include "gpuwatch.name" $root) (index . 1) $root.Release.Namespace $root.Values.service.port -}}
{{- end -}}

{{- define "gpuwatch.lakeEnv" -}}
{{- if not (or .Values.stateUrl.value .Values.stateUrl.existingSecret) -}}
{{- fail "stateUrl: cells, replicas and the lead share a state on PostgreSQL; name it" -}}
{{- end -}}
{{- with .Values.lake -}}
- name: GPUWATCH_LAKE_CATALOGUE
  value: {{ required "lake.catalogue: the URL of a PostgreSQL database, without a password" .catalogue | quote }}
{{- if .catalogueSecret }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .catalogueSecret }}, key: {{ .catalogueKey }}}
{{- end }}
- name: GPUWATCH_LAKE_DATA
  value: {{ required "lake.data: s3://BUCKET/PREFIX" .data | quote }}
{{- end }}
{{- with .Values.lake.s3 }}
{{- if .endpoint }}
- name: GPUWATCH_LAKE_S3_ENDPOINT
  value: {{ .endpoint | quote }}
{{- end }}
- name: GPUWATCH_LAKE_S3_REGION
  value: {{ .region | quote }}
- name: GPUWATCH_LAKE_S3_PATH_STYLE
  value: {{ .pathStyle | quote }}
{{- if .existingSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret }}, key: {{ .accessKey }}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret }}, key: {{ .secretKey }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "gpuwatch.lakePorts" -}}
{{- /* The ports that the URLs of the catalogue and of the bucket name, as a JSON list. */ -}}
{{- $ports := list -}}
{{- range compact (list .Values.lake.catalogue .Values.lake.s3.endpoint) -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- if $port -}}
{{- $ports = append $ports (int $port) -}}
{{- else if eq $url.scheme "http" -}}
{{- $ports = append $ports 80 -}}
{{- else if hasPrefix "postgres" $url.scheme -}}
{{- $ports = append $ports 5432 -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{- define "gpuwatch.config" -}}
{{- if .Values.config -}}
{{ .Values.config }}
{{- else -}}
[gpuwatch]
memory_limit = {{ .Values.memoryLimit | toJson }}
{{- if not .Values.lake.enabled }}
report_directory = "/data/reports"
{{- end }}

[[kubernetes]]
cluster = {{ .Values.cluster | toJson }}
{{- if .Values.agent.enabled }}

[[dcgm]]
cluster = {{ .Values.cluster | toJson }}
kubernetes = { namespace = {{ .Release.Namespace | toJson }}, service = {{ printf "%s-agent" (include "gpuwatch.name" .) | toJson }} }
{{- end }}
{{- with .Values.extraConfig }}

{{ . }}
{{- end }}
{{- end -}}
{{- end -}}
