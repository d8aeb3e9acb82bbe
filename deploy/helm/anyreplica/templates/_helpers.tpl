{{- define "anyreplica.name" -}}
{{- default .Chart.Name .Values.names.name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name has at most 50 characters, so that names of objects with an ending have at most 63. */}}
{{- define "anyreplica.fullName" -}}
{{- if .Values.names.fullName -}}
{{- .Values.names.fullName | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "anyreplica.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "anyreplica.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a Service or a Deployment selects its pods. Arguments: root, component. */}}
{{- define "anyreplica.selector" -}}
app.kubernetes.io/name: {{ include "anyreplica.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of an object. Arguments: root, component. */}}
{{- define "anyreplica.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "anyreplica.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- define "anyreplica.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The text of a setting. Helm reads numbers as floating point: without this, 67108864 would become 6.7108864e+07. */}}
{{- define "anyreplica.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* The Secret with request_state_keys. */}}
{{- define "anyreplica.keysSecret" -}}
{{- default (printf "%s-keys" (include "anyreplica.fullName" .)) .Values.secrets.existingSecret -}}
{{- end -}}

{{/*
The settings of a replica or a worker, as YAML. Arguments: root, component.
Settings that the chart computes: several replicas share keys (MCP_REPLICAS), and each counts the others by the DNS name
of the headless Service (REPLICAS_DNS). With autoscaling, MCP_REPLICAS is the minimum, so that the alert ReplicaMissing
is right, but never 1: a single planned replica would offer features that only a single replica can have.
*/}}
{{- define "anyreplica.settings" -}}
{{- $root := .root -}}
{{- $name := include "anyreplica.fullName" $root -}}
{{- $settings := dict -}}
{{- range $variable, $value := $root.Values.env -}}
{{- $_ := set $settings $variable $value -}}
{{- end -}}
{{- if eq .component "worker" -}}
{{- range $variable, $value := $root.Values.worker.env -}}
{{- $_ := set $settings $variable $value -}}
{{- end -}}
{{- else -}}
{{- $planned := $root.Values.replicaCount -}}
{{- if ne $root.Values.autoscaling.mode "none" -}}
{{- $planned = max 2 (int $root.Values.autoscaling.minReplicas) -}}
{{- end -}}
{{- $_ := set $settings "MCP_REPLICAS" $planned -}}
{{- $_ := set $settings "REPLICAS_DNS" (printf "%s-replicas" $name) -}}
{{- end -}}
{{- if not $settings.MCP_NAME -}}
{{- $_ := set $settings "MCP_NAME" $name -}}
{{- end -}}
{{- $_ := set $settings "SECRETS_DIR" "/etc/anyreplica/secrets" -}}
{{- with $root.Values.redis.url -}}
{{- $_ := set $settings "REDIS_URL" . -}}
{{- if $root.Values.worker.enabled -}}
{{- $_ := set $settings "JOBS_URL" . -}}
{{- end -}}
{{- end -}}
{{- with $root.Values.tracing.endpoint -}}
{{- $_ := set $settings "OTEL_EXPORTER_OTLP_ENDPOINT" . -}}
{{- end -}}
{{- range $variable, $value := $settings }}
{{- if not (kindIs "invalid" $value) }}
{{ $variable }}: {{ include "anyreplica.text" $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Time from SIGTERM to SIGKILL, in seconds: the drain, the grace, and 10 s for cancelled calls to end. */}}
{{- define "anyreplica.terminationSeconds" -}}
{{- $settings := include "anyreplica.settings" . | fromYaml -}}
{{- $drain := default "5" $settings.DRAIN_SECONDS | float64 -}}
{{- $grace := default "25" $settings.SHUTDOWN_GRACE_SECONDS | float64 -}}
{{- addf $drain $grace 10 | ceil | int -}}
{{- end -}}

{{/* The security context of every container of this chart: no root, no capabilities, no write access. */}}
{{- define "anyreplica.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "anyreplica.podSecurity" -}}
runAsNonRoot: true
# The user of the image (server/Dockerfile). The group may read the mounted secrets.
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}
