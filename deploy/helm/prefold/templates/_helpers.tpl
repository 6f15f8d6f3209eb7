{{- define "prefold.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Pattern of the names of the deployment's pods, NAME-HASH-12345, which those of a release `NAME-b` do not match. Kubernetes keeps 58
     characters before the last five: of a name with more than 46, the end of the hash is missing. */}}
{{- define "prefold.pods" -}}
{{- $name := include "prefold.name" . }}
{{- if le (len $name) 46 }}{{ $name }}-[a-z0-9]{1,10}-[a-z0-9]{5}
{{- else }}{{ printf "%s-" $name | trunc 58 }}[a-z0-9]*-?[a-z0-9]{5}{{ end }}
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
