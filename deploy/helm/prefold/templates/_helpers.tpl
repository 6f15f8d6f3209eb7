{{- define "prefold.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "prefold.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "prefold.labels" -}}
{{ include "prefold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* JSON strings, numbers and lists are valid TOML. Helm reads integers as floats; toJson writes them as integers again. */}}
{{- define "prefold.config" -}}
{{- with .Values.model }}
model-id = {{ . | toJson }}
{{- end }}
{{- range $key, $value := .Values.settings }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}

{{- define "prefold.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "prefold.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- /* Without a CPU limit, the server would start a thread for each core of the node. */}}
{{- define "prefold.threads" -}}
{{- $resources := .Values.resources }}
{{- if and (dig "requests" "cpu" "" $resources) (not (dig "limits" "cpu" "" $resources)) }}
{{- $set := list }}
{{- range .Values.extraEnv }}{{ $set = append $set .name }}{{ end }}
{{- /* A variable would override the setting. */}}
{{- if hasKey .Values.settings "tokenization-workers" }}{{ $set = append $set "TOKENIZATION_WORKERS" }}{{ end }}
{{- range list "RAYON_NUM_THREADS" "TOKENIZATION_WORKERS" "TOKIO_WORKER_THREADS" }}
{{- if not (has . $set) }}
- name: {{ . }}
  valueFrom:
    resourceFieldRef: {resource: requests.cpu}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
